#include "../isa.h"
#include "int_gemm.h"

namespace everbit {

void int_gemm(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
#if defined(__x86_64__)
  constexpr KernelTable<IntGemm> kTable = {int_gemm_scalar, int_gemm_avx2, int_gemm_avx512};
#else
  constexpr KernelTable<IntGemm> kTable = {int_gemm_scalar};
#endif
  kTable.active()(a, rows, stride, length, w, columns, c);
}

}  // namespace everbit
