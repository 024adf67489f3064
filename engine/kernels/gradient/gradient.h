// Loops of the backward pass: quantizing and merging gradients, estimators, batch norm, updates of parameters (docs/arithmetic.md,
// section 4).
//
// Written once in loops.h and compiled once for every instruction set, like kernels/elementwise. They take the ordinary case, 32-bit sums;
// what is wider goes through fixed_point.h, with the same result. `threads` may share the work of a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../fixed_point.h"
#include "../../random.h"

namespace everbit {

// The OR of all magnitudes: it is as long as the longest.
uint32_t magnitude_loop(const int32_t* sums, size_t count, int threads);

// values[i] = sats(rshift(sums[i], shift), bits), bits 8 or 16, shift 0 to 31.
struct NarrowCall {
  const int32_t* sums;
  size_t count;
  int32_t shift;
  int32_t bits;
  void* values;
};
void narrow_loop(const NarrowCall&, int threads);

// sums[i] = rshift(sats(rshift(sums[i], shift), bits), sum_shift) + rshift(before[i], before_shift): a gradient meets what other readers of
// its tensor left there. before: `bits` bits, 8 or 16; shifts 0 to 31.
struct MergeCall {
  int32_t* sums;
  const void* before;
  size_t count;
  int32_t bits;
  int32_t shift, sum_shift, before_shift;
};
void merge_loop(const MergeCall&, int threads);

// The straight-through estimators of a sign: sums = g * factor(u), u = sat(scale(x - zero_point, to_real) + bias[c], 32) in units of 2^-16;
// factor = max(0, 2^15 - (|u| >> 1)) where `approximate`, else [|u| <= clip]. x, g: pixels x channels of 8 or 16 bits; exponents of to_real
// from -31 to 14; bias: nullptr where the sign has none.
struct EstimatorCall {
  const void* x;
  const void* g;
  int32_t x_bits, g_bits;
  int32_t pixels, channels;
  Scale to_real;
  int32_t zero_point;
  const int32_t* bias;
  bool approximate;
  int32_t clip;
  int32_t* sums;
};
void estimator_loop(const EstimatorCall&, int threads);

// totals[c] += sum over pixels of values[p][c].
struct ChannelSumCall {
  const int32_t* values;
  int32_t pixels, channels;
  int64_t* totals;
};
void channel_sum_loop(const ChannelSumCall&);

// The gradients of a batch norm: beta[c] += g, gamma[c] += g * xhat, sums = g * F[c]. g: pixels x channels of 8 or 16 bits; |F| <= 2^15;
// sums: nullptr where nobody needs them.
struct NormGradientCall {
  const void* g;
  int32_t g_bits;
  const int16_t* xhat;
  int32_t pixels, channels;
  const int32_t* F;
  int32_t* sums;
  int64_t* gamma;
  int64_t* beta;
};
void norm_gradient_loop(const NormGradientCall&);

// The gradients of an RPReLU: sums = g * F, F = 2^shift for u > 0, else slope[c]; u = sat(scale(x - zero_point, to_real) + pre[c], 32) in
// units of 2^-16; pre_sums[c] += sums, post_sums[c] += g, slope_sums[c] += g * sat(rshift(u, 5), 16) where u <= 0. x, g: pixels x channels
// of 8 or 16 bits; to_real: ordinary(); |slope| < 2^15, shift 0 to 15.
struct PreluGradientCall {
  const void* x;
  const void* g;
  int32_t x_bits, g_bits;
  int32_t pixels, channels;
  Scale to_real;
  int32_t zero_point;
  const int32_t* pre;
  const int32_t* slope;
  int32_t shift;
  int32_t* sums;
  int64_t* pre_sums;
  int64_t* slope_sums;
  int64_t* post_sums;
};
void prelu_gradient_loop(const PreluGradientCall&);

// W[i] = sats(W[i] - scale(sums[i], by), width) for parameters of 8, 16 or 32 bits; bit i of the result is [W[i] >= 0]. count <= 64.
// Where the rounding is stochastic, scale_randomly() with the draw of element first + i.
struct UpdateCall {
  void* weights;
  int32_t width;
  const int32_t* sums;
  int32_t count;
  Scale by;
  Rounding rounding;
  int32_t first;
};
uint64_t update_loop(const UpdateCall&);

// The gradient of a clamp that nobody else's meets: values[i] = low < x[i] < high ? g[i] : 0. x: 8, 16 or 32 bits, g and values: 8 or 16.
struct MaskCall {
  const void* x;
  int32_t x_bits;
  int32_t low, high;
  const void* g;
  void* values;
  int32_t g_bits;
  int64_t count;
};
void mask_loop(const MaskCall&);

}  // namespace everbit
