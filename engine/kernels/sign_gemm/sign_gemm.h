// Integers times +-1: C[m][n] = sum over i of G[m][i] * b_i[n], n = 0..63, where b_i[n] is +1 or -1 by bit n of bits[i], and 0 for all n
// where present[i] is 0. It is both gradients of a binary convolution: of its input (G: gradients by tap and channel, b: weights) and
// of its weights (G: gradients by place, b: activations).
//
// G: rows x length. bits: length words. present: length bytes of 0 or 1, or nullptr where all are 1. C: rows x 64, overwritten.
// Bounds: gradients of 8 and 16 bits sum in int32, exact for length <= 65538 (2^15 - 1 a term); 32-bit ones in int64, exact for 2^32
// terms. Gradients are symmetric (fixed_point.h, saturate_symmetric): the most negative number of a width never occurs.
#pragma once

#include <cstdint>

namespace everbit {

constexpr int32_t kSignGemmMaxLength = 65538;

using SignGemm8 = void(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c);
using SignGemm16 = void(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c);
using SignGemm32 = void(const int32_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int64_t* c);

SignGemm8 sign_gemm_scalar;
SignGemm8 sign_gemm_avx2;
SignGemm8 sign_gemm_avx512;
SignGemm8 sign_gemm_amx;
SignGemm8 sign_gemm_neon;
SignGemm8 sign_gemm_neon_dotprod;
SignGemm8 sign_gemm_dsp;

SignGemm16 sign_gemm_scalar;
SignGemm16 sign_gemm_avx2;
SignGemm16 sign_gemm_avx512;
SignGemm16 sign_gemm_amx;
SignGemm16 sign_gemm_neon;
SignGemm16 sign_gemm_neon_dotprod;
SignGemm16 sign_gemm_dsp;

SignGemm32 sign_gemm_scalar;

// The fastest kernel of the active instruction set.
SignGemm8 sign_gemm;
SignGemm16 sign_gemm;
SignGemm32 sign_gemm;

}  // namespace everbit
