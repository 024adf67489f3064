// Instruction sets: what the processor has, and which one the kernels use.
#pragma once

namespace everbit {

enum class Isa { kScalar, kAvx2, kAvx512, kCount };

const char* isa_name(Isa isa);
bool isa_available(Isa isa);
Isa best_isa();

// The set in use: the best one, unless select_isa() chose another. Not to be changed while a learner runs.
Isa active_isa();
// False, and no change, where the processor lacks it.
bool select_isa(Isa isa);

// One kernel of a family for each instruction set; nullptr where the family has none of its own, and the next lower serves.
template <typename F>
struct KernelTable {
  F* scalar;
  F* avx2 = nullptr;
  F* avx512 = nullptr;

  F* active() const {
    switch (active_isa()) {
      case Isa::kAvx512:
        if (avx512 != nullptr) return avx512;
        [[fallthrough]];
      case Isa::kAvx2: return avx2 != nullptr ? avx2 : scalar;
      default: return scalar;
    }
  }
};

}  // namespace everbit
