// Product of two matrices of +-1: C[m][n] = K - 2 popcount(A[m] xor B[n]).
//
// A: rows x words, 64-bit words of bits. B: eight columns side by side, [ceil(columns / 8)][words][8], so that one 512-bit load serves
// eight dot products. Unused bits of A and B are equal (0) and cancel. C: rows x columns of int16, row stride `columns`.
// Bound: K <= 32767, so |C| fits int16.
//
// Zero padding. A place outside the image adds 0, but a bit is +1 or -1. Let its bits be 0, that is -1 everywhere: the tap then adds
// minus the sum of its weights, and adding that sum (BinaryWeights::tap_sums) makes it 0. Padding with +1 needs no correction:
// its bits are 1.
//
// Cost on a Cortex-M with USADA8, 64 bits: four loads, two xor, 14 to add up nibbles and bytes, one for the sum.
// Cost a 512-bit step (8 columns x 64 bits): xor (p05), vpopcntq (p5), add (p05): 1.5 cycles where loads are hidden.
#pragma once

#include <cstdint>

namespace everbit {

using XnorGemm = void(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c);

XnorGemm xnor_gemm_scalar;
XnorGemm xnor_gemm_avx2;
XnorGemm xnor_gemm_avx512;
XnorGemm xnor_gemm_neon;
XnorGemm xnor_gemm_dsp;

// The fastest kernel of the active instruction set.
XnorGemm xnor_gemm;

}  // namespace everbit
