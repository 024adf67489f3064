// Integer matrix product of 16-bit activations and 8-bit weights: C[m][n] = sum over k of A[m][k] * W[n][k].
//
// A: rows x length, int16. W: columns x length, int8. C: rows x columns, int64, overwritten.
// Bound: a term is below 2^22 (|w| <= 127, |a| <= 2^15), so int32 partial sums are exact for 512 terms; kernels add those partial sums
// in int64, which holds 2^41 terms.
#pragma once

#include <cstdint>

namespace everbit {

using IntGemm = void(const int16_t* a, int32_t rows, int32_t length, const int8_t* w, int32_t columns, int64_t* c);

IntGemm int_gemm_scalar;
IntGemm int_gemm_avx2;

// The fastest kernel this processor has.
void int_gemm(const int16_t* a, int32_t rows, int32_t length, const int8_t* w, int32_t columns, int64_t* c);

}  // namespace everbit
