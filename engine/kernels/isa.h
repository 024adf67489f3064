// Instruction sets: what the processor has, and which one the kernels use.
#pragma once

namespace everbit {

// A processor has those of one family, x86, ARM or Cortex-M, from kScalar up.
enum class Isa { kScalar, kAvx2, kAvx512, kAmx, kNeon, kNeonDotprod, kDsp, kCount };
constexpr int kIsaCount = static_cast<int>(Isa::kCount);

const char* isa_name(Isa isa);
bool isa_available(Isa isa);
Isa best_isa();

// The set in use: the best one, unless select_isa() chose another. Not to be changed while a learner runs.
Isa active_isa();
// False, and no change, where the processor lacks it.
bool select_isa(Isa isa);

// One kernel of a family for each instruction set, in the order of Isa; nullptr where the family or the build has none of its own, and
// the one before serves.
template <typename F>
struct KernelTable {
  F* kernels[kIsaCount];

  F* active() const {
    int isa = static_cast<int>(active_isa());
    while (kernels[isa] == nullptr) --isa;
    return kernels[isa];
  }
};

}  // namespace everbit

// Cortex-M with the DSP extension: the compiler knows, and there is nobody to ask.
#if defined(__ARM_FEATURE_DSP) && __ARM_ARCH_PROFILE == 'M' && !defined(EVERBIT_SCALAR_ONLY)
#define EVERBIT_HAS_DSP
#endif

// Entries of a table: the kernel where the build has its instruction set (engine/CMakeLists.txt), nullptr elsewhere.
#if defined(EVERBIT_HAS_X86)
#define EVERBIT_X86(kernel) kernel
#else
#define EVERBIT_X86(kernel) nullptr
#endif
#if defined(EVERBIT_HAS_AMX)
#define EVERBIT_AMX(kernel) kernel
#else
#define EVERBIT_AMX(kernel) nullptr
#endif
#if defined(EVERBIT_HAS_NEON)
#define EVERBIT_NEON(kernel) kernel
#else
#define EVERBIT_NEON(kernel) nullptr
#endif
#if defined(EVERBIT_HAS_NEON_DOTPROD)
#define EVERBIT_NEON_DOTPROD(kernel) kernel
#else
#define EVERBIT_NEON_DOTPROD(kernel) nullptr
#endif
#if defined(EVERBIT_HAS_DSP)
#define EVERBIT_DSP(kernel) kernel
#else
#define EVERBIT_DSP(kernel) nullptr
#endif
