// Depthwise products: every channel has a small filter of its own. Weights lie tap by tap, [taps][channels], int8.
//
// Written once in loops.h and compiled once for every instruction set, like kernels/elementwise. Blocks of channels keep their sums in
// registers while the taps pass. Bounds, for the most taps, 255: |x - zero_point| < 2^16 times |w| <= 2^7 is below 2^31 in sum, so int32
// holds the forward pass and, for gradients of 8 and 16 bits, the input's gradient (255 * 2^15 * 2^7 < 2^30); activations and gradients of
// 32 bits sum in int64. The weights' gradient sums in int64: products of 16-bit gradients are below 2^31, of 32-bit ones below 2^47 (32 by
// 32 bits leave 16 behind, gradient_product() in fixed_point.h); how many places there may be, see learner/network.cc.
#pragma once

#include <cstdint>

namespace everbit {

constexpr int32_t kDepthwiseMaxTaps = 255;

// What a depthwise product reads and writes, of one image.
struct DepthwiseShape {
  int32_t height, width, channels;   // of the input
  int32_t out_height, out_width;
  int32_t kernel_height, kernel_width, stride, top, left;
};

// sums[column][c] = sum over the taps inside the image of (x - zero_point) * w, for one output row; overwritten. x: 8, 16 or 32 bits.
struct DepthwiseRow {
  DepthwiseShape shape;
  const void* x;
  int32_t x_bits, zero_point;
  const int8_t* w;
  int32_t row;
  void* sums;  // out_width x channels, of 32 bits where x has 8 or 16, of 64 where it has 32
};

// sums[pixel][c] = sum over the taps and the outputs that read the pixel of g * w; overwritten. g: 8, 16 or 32 bits.
struct DepthwiseInputGradient {
  DepthwiseShape shape;
  const void* g;
  int32_t g_bits;
  const int8_t* w;
  int64_t* sums;  // height * width x channels
};

// sums[tap][c] += sum over the outputs whose tap lies inside the image of g * (x - zero_point).
struct DepthwiseWeightGradient {
  DepthwiseShape shape;
  const void* x;
  int32_t x_bits, zero_point;
  const void* g;
  int32_t g_bits;
  int64_t* sums;  // taps x channels
};

void depthwise_row(const DepthwiseRow&);
void depthwise_input_gradient(const DepthwiseInputGradient&);
void depthwise_weight_gradient(const DepthwiseWeightGradient&);

}  // namespace everbit
