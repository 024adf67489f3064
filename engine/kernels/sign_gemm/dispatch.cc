#include "../isa.h"
#include "sign_gemm.h"

namespace everbit {

void sign_gemm(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  constexpr KernelTable<SignGemm8> kTable = {sign_gemm_scalar, EVERBIT_X86(sign_gemm_avx2), EVERBIT_X86(sign_gemm_avx512),
                                             EVERBIT_AMX(sign_gemm_amx), EVERBIT_NEON(sign_gemm_neon),
                                             EVERBIT_NEON_DOTPROD(sign_gemm_neon_dotprod)};
  kTable.active()(g, rows, length, bits, present, c);
}

void sign_gemm(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  constexpr KernelTable<SignGemm16> kTable = {sign_gemm_scalar, EVERBIT_X86(sign_gemm_avx2), EVERBIT_X86(sign_gemm_avx512),
                                              EVERBIT_AMX(sign_gemm_amx), EVERBIT_NEON(sign_gemm_neon),
                                              EVERBIT_NEON_DOTPROD(sign_gemm_neon_dotprod)};
  kTable.active()(g, rows, length, bits, present, c);
}

void sign_gemm(const int32_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int64_t* c) {
  sign_gemm_scalar(g, rows, length, bits, present, c);
}

}  // namespace everbit
