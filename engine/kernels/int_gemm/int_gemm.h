// Integer matrix product of 16-bit or 32-bit values and 8-bit weights: C[m][n] = sum over k of A[m][k] * W[n][k].
//
// A: rows of `length` values, one every `stride` values; stride is a multiple of 16 and the values between length and stride are 0, so
// that vectors need no tail. W: columns x length, int8. C: rows x columns, int64, overwritten.
// Bound: a term is at most 2^22 (|w| <= 2^7, |a| <= 2^15), so int32 partial sums are exact for 511 terms; kernels add those partial sums
// in int64, which holds 2^40 terms, or 2^24 of 32-bit values.
#pragma once

#include <cstdint>

namespace everbit {

constexpr int32_t kIntGemmStep = 16;

static inline int32_t int_gemm_stride(int32_t length) { return (length + kIntGemmStep - 1) / kIntGemmStep * kIntGemmStep; }

using IntGemm = void(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c);

using IntGemm32 = void(const int32_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c);

IntGemm int_gemm_scalar;
IntGemm32 int_gemm_scalar;
IntGemm int_gemm_avx2;
IntGemm int_gemm_avx512;
IntGemm int_gemm_neon;
IntGemm int_gemm_neon_dotprod;
IntGemm int_gemm_dsp;

// The fastest kernel of the active instruction set.
IntGemm int_gemm;
IntGemm32 int_gemm;

}  // namespace everbit
