#include "../isa.h"
#include "xnor_gemm.h"

namespace everbit {

void xnor_gemm(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
#if defined(__x86_64__)
  constexpr KernelTable<XnorGemm> kTable = {xnor_gemm_scalar, xnor_gemm_avx2, xnor_gemm_avx512};
#else
  constexpr KernelTable<XnorGemm> kTable = {xnor_gemm_scalar};
#endif
  kTable.active()(a, rows, words, b, columns, K, c);
}

}  // namespace everbit
