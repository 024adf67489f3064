// What the plan of a learner's memory depends on, beside the program and the options: a plan can be made here for a processor elsewhere.
#pragma once

#include <cstddef>

namespace everbit {

struct Processor {
  size_t address_bytes;  // 4 or 8; where they are 4, numbers of 64 bits are still aligned to 8 bytes, as on ARM and RISC-V
  bool packed_gemm;      // its engine has kernels that pack weights, which take room
  bool tiles;            // it has kernels on tiles, which do
};

// The one this engine was built for. Not a constant: the engine alone knows which kernels it was built with.
Processor this_processor();

// One whose engine has scalar kernels alone (EVERBIT_SCALAR_ONLY).
constexpr Processor scalar_processor(size_t address_bytes) { return {address_bytes, false, false}; }

}  // namespace everbit
