// Loops over activations that have no product of matrices in them: affine, add, requantization, sign bits.
//
// The rules are those of docs/arithmetic.md, written once in loops.h; that file is compiled once for every instruction set, so that all
// agree by construction and the compiler's vectors do the work. `threads` may share the work of a call. Sums stay within int32: |q| and
// |A| of 2^15 and B of 2^29 leave room for the rounding constant.
#pragma once

#include <cstdint>

#include "../../fixed_point.h"

namespace everbit {

// y[p][c] = clamp(zero_point + rshift(x[p][c] * A[c] + B[c], s[c])) to the width of y. x, y: pixels x channels of 8 or 16 bits (32-bit
// tensors have wider constants and no loop here: layers/affine.cc, layers/add.cc).
struct AffineCall {
  const void* x;
  void* y;
  int32_t x_bits, y_bits;
  int32_t pixels, channels;
  const int16_t* A;
  const int32_t* B;
  const uint8_t* s;
  int32_t zero_point;
};

// y[i] = clamp(zero_point + rshift(x0[i] * A0 + x1[i] * A1 + B, s)), 8 or 16 bits all.
struct AddCall {
  const void* x0;
  const void* x1;
  void* y;
  int32_t x0_bits, x1_bits, y_bits;
  int32_t count;
  int32_t A0, A1, B, s;
  int32_t zero_point;
};

// Bit c of a pixel is [x[c] >= threshold[c]]; x of 8, 16 or 32 bits. words: pixels x words_for(channels), written whole; unused bits are 0.
struct SignCall {
  const void* x;
  int32_t x_bits;
  int32_t pixels, channels;
  const int32_t* threshold;
  uint64_t* words;
};

// y[p][c] = clamp(zero_point + scale(sums[p][c] + offset[c], multiplier[c])), with one multiplier a channel, or one in all; y of 8, 16 or
// 32 bits. Sums that fit int32 with exponents from -31 to 0, the ordinary case, take the vectors' way; it gives what scale() gives.
struct RequantizeCall {
  const int64_t* sums;
  void* y;
  int32_t y_bits;
  int32_t pixels, channels;
  const int64_t* offset;
  const int32_t* mantissa;
  const int8_t* exponent;
  bool one_multiplier;
  int32_t zero_point;
};

// The learnable batch norm: xhat = sat(rshift(x * A + B, s), 16), kept where xhat is not nullptr; y = clamp(zero_point +
// scale(sat(gamma[c] * xhat + beta[c], 32), output)), gamma in 16 bits; x of 8 or 16 bits, y of 8, 16 or 32. Exponents of `output` from
// -31 to 0 take the vectors' way.
struct NormCall {
  AffineCall affine;  // its y and y_bits are the layer's output
  int16_t* xhat;
  const int32_t* gamma;
  const int32_t* beta;
  Scale output;
};

// An RPReLU: u = sat(scale(x - x_zero_point, to_real) + pre[c], 32) in units of 2^-16; v = u for u > 0, else sat(rshift(slope[c] * u,
// slope_shift), 32); y = clamp(y_zero_point + scale(sat(v + post[c], 32), output)). x, y: pixels x channels, x of 8 or 16 bits, y of 8, 16
// or 32; to_real: ordinary(); exponents of `output` from -31 to 0; |slope| < 2^15, slope_shift 0 to 15.
struct PreluCall {
  const void* x;
  void* y;
  int32_t x_bits, y_bits;
  int32_t pixels, channels;
  Scale to_real;
  int32_t x_zero_point;
  const int32_t* pre;
  const int32_t* slope;
  int32_t slope_shift;
  const int32_t* post;
  Scale output;
  int32_t y_zero_point;
};

// y[i] = max(x[i], y[i]) of 8, 16 or 32 bits.
struct MaximumCall {
  const void* x;
  void* y;
  int32_t bits;
  int32_t count;
};

// y[i] = clamp(zero_point + rshift(sums[i], shift)) of 8 or 16 bits; sums below 2^30 in size.
struct ShiftCall {
  const int32_t* sums;
  void* y;
  int32_t bits;
  int32_t count;
  int32_t shift, zero_point;
};

// y[i] = clamp(2 u[i] - offset).
struct ImageCall {
  const uint8_t* u;
  int16_t* y;
  int32_t count;
  int32_t offset;
};

// Of `count` weights: their sum and the sum of their magnitudes.
struct WeightSumsCall {
  const int8_t* w;
  int32_t count;  // at most 2^24
  int32_t sum;
  uint32_t magnitude;
};

// to[i] = sats(rshift(p[i], width - 8), 8): weights as an ordinary convolution sees them; p of 8, 16 or 32 bits.
struct WeightsCall {
  const void* p;
  int32_t width;
  int64_t count;
  int8_t* to;
};

void affine_loop(const AffineCall&, int threads);
void add_loop(const AddCall&, int threads);
void sign_loop(const SignCall&, int threads);
void requantize_loop(const RequantizeCall&, int threads);
void norm_loop(const NormCall&, int threads);
void prelu_loop(const PreluCall&, int threads);
// On the caller's thread:
void maximum_loop(const MaximumCall&);
void shift_loop(const ShiftCall&);
void weights_loop(const WeightsCall&);
void weight_sums_loop(WeightSumsCall&);
void image_loop(const ImageCall&);

}  // namespace everbit
