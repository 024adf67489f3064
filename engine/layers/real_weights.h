// 8-bit weights with their multipliers and biases: what ordinary and depthwise convolutions have in common.
//
// Frozen: constant int8 weights, one bias and one multiplier a channel. Learnable: the forward pass sees p8 of a parameter, no bias, one
// multiplier (docs/arithmetic.md, sections 2 and 3).
#pragma once

#include "../memory.h"
#include "layer.h"

namespace everbit {

constexpr int kRealWeight = 0;      // arrays; and the parameter
constexpr int kRealBias = 1;
constexpr int kRealMantissa = 2;
constexpr int kRealExponent = 3;
constexpr int kRealInputScale = 4;  // attribute, behind the window's four

// nullptr, or what is wrong with the weights of a layer that needs `count` of them.
const char* real_weights_check(const Program&, const LayerRecord&, int64_t count);

// The weights of the forward pass; `room` takes them where the layer learns.
const int8_t* real_forward_weights(const Context&, int8_t* room, int32_t count);

// What is added to a layer's sums, by channel: the bias, less what the zero point brings into them.
struct RealOffsets {
  int64_t* all;
  int32_t* fitting;  // the same where `fit`
  bool fit;          // no sum, with its offset or without, leaves 31 bits; and the multipliers suit short_requantize()

  // Memory for `channels` of them.
  RealOffsets(Region& s, int32_t channels)
      : all(s.take<int64_t>(static_cast<size_t>(channels))), fitting(s.take<int32_t>(static_cast<size_t>(channels))), fit(false) {}
};

// weights: of a channel, `length` of them `step` apart, its first `next` behind the one before. zero_point: of the values as the sums take
// them; 0 where they are differences from it.
void fill_offsets(const Context&, const int8_t* weights, int32_t length, int64_t step, int64_t next, int32_t zero_point, RealOffsets&);

// y[p][c] = clamp(Z_out + scale(sums[p][c] + offset[c], multiplier[c])) for `pixels` places from `first` on, on the caller's thread. Sums
// of 32 bits need offsets that fit.
void real_requantize(const Context&, const int64_t* sums, const RealOffsets&, int32_t first, int32_t pixels);
void real_requantize(const Context&, const int32_t* sums, const RealOffsets&, int32_t first, int32_t pixels);

// The bias of a channel, 0 where the layer has none.
inline int32_t real_bias(const Context& context, int32_t c) {
  const int32_t* bias = context.program.array<int32_t>(context.layer, kRealBias);
  return bias != nullptr ? bias[c] : 0;
}

// Moves `count` weights from `first` on along their gradients' sums.
template <typename Sum>
void update_weights(Parameter& weight, int32_t first, int32_t count, const Sum* sums, Scale step, int32_t exponent) {
  for (int32_t i = 0; i < count; i += 64) {
    update_parameters(weight, first + i, count - i < 64 ? count - i : 64, sums + i, step, exponent);
  }
}

// What a sum of weight gradients is multiplied by.
inline Scale real_step(const Context& context, const Parameter& weight) {
  return step_of(context, weight) * context.layer.scale_attribute(kRealInputScale);
}

}  // namespace everbit
