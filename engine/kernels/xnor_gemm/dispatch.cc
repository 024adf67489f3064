#include "../isa.h"
#include "xnor_gemm.h"

namespace everbit {

void xnor_gemm(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  constexpr KernelTable<XnorGemm> kTable = {xnor_gemm_scalar, EVERBIT_X86(xnor_gemm_avx2), EVERBIT_X86(xnor_gemm_avx512),
                                            nullptr, EVERBIT_NEON(xnor_gemm_neon), nullptr, EVERBIT_DSP(xnor_gemm_dsp)};
  kTable.active()(a, rows, words, b, columns, K, c);
}

}  // namespace everbit
