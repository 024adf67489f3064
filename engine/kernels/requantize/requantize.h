// Sums of 32 bits to activations: y[p][c] = clamp(zero_point + scale(sums[p][c] + offset[c], multiplier[c])), with one multiplier a
// channel, or one in all. Sums and offsets of 64 bits, and other exponents: requantize_loop() of kernels/elementwise.
//
// Bound: |sums + offset| < 2^31; exponents from -31 to 0.
#pragma once

#include <cstdint>

namespace everbit {

struct ShortRequantizeCall {
  const int32_t* sums;
  void* y;
  int32_t bits;  // of y: 8 or 16
  int32_t pixels, channels;
  const int32_t* offset;
  const int32_t* mantissa;
  const int8_t* exponent;
  bool one_multiplier;
  int32_t zero_point;
};

using ShortRequantize = void(const ShortRequantizeCall&);

ShortRequantize short_requantize_scalar;
ShortRequantize short_requantize_avx2;
ShortRequantize short_requantize_avx512;
ShortRequantize short_requantize_neon;

// The fastest kernel of the active instruction set, on the caller's thread.
ShortRequantize short_requantize;

}  // namespace everbit
