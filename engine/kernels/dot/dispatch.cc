#include "../isa.h"
#include "dot.h"

namespace everbit {

int64_t dot(const DotCall& call) {
  constexpr KernelTable<Dot> kTable = {dot_scalar, EVERBIT_X86(dot_avx2), EVERBIT_X86(dot_avx512), nullptr,
                                       EVERBIT_NEON(dot_neon), nullptr, EVERBIT_DSP(dot_dsp)};
  return kTable.active()(call);
}

}  // namespace everbit
