#include "../isa.h"
#include "int_gemm.h"

namespace everbit {

void int_gemm(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  constexpr KernelTable<IntGemm> kTable = {int_gemm_scalar, EVERBIT_X86(int_gemm_avx2), EVERBIT_X86(int_gemm_avx512), nullptr,
                                           EVERBIT_NEON(int_gemm_neon), EVERBIT_NEON_DOTPROD(int_gemm_neon_dotprod),
                                           EVERBIT_DSP(int_gemm_dsp)};
  kTable.active()(a, rows, stride, length, w, columns, c);
}

void int_gemm(const int32_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  int_gemm_scalar(a, rows, stride, length, w, columns, c);
}

}  // namespace everbit
