// The sign of an activation, to packed bits; a learned bias before it; its straight-through estimators.
//
// Bounds: u saturates to int32 in units of 2^-16; the estimator's factor is at most 2^15, so that G times it fits int32 for q_b <= 16.
#include "../bits.h"
#include "../kernels/elementwise/elementwise.h"
#include "../kernels/gradient/gradient.h"
#include "../memory.h"
#include "../parallel.h"
#include "layers.h"

namespace everbit {
namespace {

enum Estimator : int32_t { kSteSign, kApproxSign, kEstimators };

constexpr int kEstimator = 0;  // attributes
constexpr int kClip = 1;
constexpr int kInputScale = 2;
constexpr int kThreshold = 0;  // array
constexpr int kBias = 0;       // parameter

// The real input of the sign, in units of 2^-16.
struct RealInput {
  Scale to_real;
  int32_t zero_point;
  const Parameter* bias;

  int32_t operator()(int32_t q, int32_t c) const {
    int64_t u = scale(q - zero_point, to_real);
    if (bias != nullptr) u += bias_of(c);
    return saturate(u, 32);
  }

  int64_t bias_of(int32_t c) const { return shift_either_way(bias->forward16(c), bias->range_exponent + 1); }
};

RealInput real_input(const Context& context) {
  return {context.layer.scale_attribute(kInputScale), context.input().zero_point, context.parameter(kBias)};
}

}  // namespace

const char* sign_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || out.bits != 1 || in.pixels() != out.pixels() || in.channels != out.channels) {
    return "a sign must turn values of 8 bits or more into bits of the same shape";
  }
  if (layer.attributes[kEstimator] < 0 || layer.attributes[kEstimator] >= kEstimators || layer.attributes[kClip] < 0 ||
      !valid_scale(layer.scale_attribute(kInputScale))) {
    return "a sign has an unknown estimator or an impossible scale";
  }
  const int32_t bias = layer.parameters[kBias];
  if (bias == kAbsent) {
    return layer.arrays[kThreshold].bytes == in.channels * 4 ? nullptr : "a sign needs one threshold a channel";
  }
  if (layer.arrays[kThreshold].bytes != 0) return "a sign has a threshold or a learned bias, not both";
  if (program.parameter(bias).count != in.channels || program.parameter(bias).range_exponent < -1) {
    return "a sign's learned bias does not fit its input";
  }
  return nullptr;
}

namespace {

// The least q of 8 or 16 bits whose u is not negative, or the one behind the largest: u never falls as q grows, where the mantissa is not
// negative (values this short are widened by as many bits as the exponent has, or until one step is a unit of the product).
int32_t least_positive(const RealInput& real, int32_t bits, int32_t c) {
  int32_t low = -(1 << (bits - 1));
  int32_t high = 1 << (bits - 1);
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (real(middle, c) >= 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

void sign_forward(const Context& context) {
  const TensorRecord& in = context.input();
  uint64_t* words = context.output_values<uint64_t>();
  const int32_t pixels = context.batch * in.pixels();
  if (context.parameter(kBias) == nullptr) {
    sign_loop({context.input_values<void>(), in.bits, pixels, in.channels, context.program.array<int32_t>(context.layer, kThreshold),
               words}, context.threads);
    return;
  }
  const RealInput real = real_input(context);
  if (in.bits <= 16 && real.to_real.mantissa >= 0 && pixels > in.bits) {
    int32_t* threshold = static_cast<int32_t*>(context.scratch);
    for (int32_t c = 0; c < in.channels; ++c) threshold[c] = least_positive(real, in.bits, c);
    sign_loop({context.input_values<void>(), in.bits, pixels, in.channels, threshold, words}, context.threads);
    return;
  }
  with_activation_type(in.bits, [&](auto from) {
    parallel_for(context.threads, pixels, kElementGrain / in.channels, [&](int64_t first, int64_t last, int) {
      const auto* x = context.input_values<decltype(from)>() + first * in.channels;
      uint64_t* to = words + first * words_for(in.channels);
      for (int64_t p = first; p < last; ++p, x += in.channels) {
        for (int32_t w = 0; w < words_for(in.channels); ++w) {
          uint64_t word = 0;
          for (int32_t c = w * 64; c < in.channels && c < w * 64 + 64; ++c) word |= uint64_t{real(x[c], c) >= 0} << (c & 63);
          *to++ = word;
        }
      }
    });
  });
}

namespace {

struct BackwardScratch {
  int64_t* bias_sum;  // channels
  int32_t* bias;      // channels: the learned bias in units of 2^-16
  void* sums;         // one a value of the input

  BackwardScratch(Region& s, const TensorRecord& in, int32_t batch, int q_b)
      : bias_sum(s.take<int64_t>(static_cast<size_t>(in.channels))),
        bias(s.take<int32_t>(static_cast<size_t>(in.channels))),
        sums(s.take<uint8_t>(static_cast<size_t>(batch) * static_cast<size_t>(in.elements()) * accumulator_bytes(q_b))) {}
};

// Whether the estimator's loop takes this call; if so, `bias` is filled.
bool has_loop(const RealInput& real, const TensorRecord& in, int q_b, int32_t* bias) {
  if (in.bits == 32 || q_b == 32 || !ordinary(real.to_real)) return false;
  for (int32_t c = 0; real.bias != nullptr && c < in.channels; ++c) {
    const int64_t value = real.bias_of(c);
    if (value != static_cast<int32_t>(value)) return false;
    bias[c] = static_cast<int32_t>(value);
  }
  return true;
}

}  // namespace

size_t sign_scratch(const Extent& extent) {
  Region region;
  BackwardScratch(region, extent.program.tensor(extent.layer.inputs[0]), extent.batch, extent.widths.non_binary);
  return region.used;
}

void sign_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const Gradient& gradient = context.output_gradient();
  const RealInput real = real_input(context);
  const int32_t clip = context.layer.attributes[kClip];
  const bool approximate = context.layer.attributes[kEstimator] == kApproxSign;
  const int32_t exponent = gradient.exponent - (approximate ? 14 : 0);
  const int32_t pixels = context.batch * in.pixels();
  const int32_t channels = in.channels;
  const int q_b = context.widths.non_binary;
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  const BackwardScratch room(scratch, in, context.batch, q_b);

  with_gradient_type(q_b, [&](auto element, auto accumulator) {
    using Sum = decltype(accumulator);
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    Sum* sums = static_cast<Sum*>(room.sums);
    if (has_loop(real, in, q_b, room.bias)) {
      estimator_loop({context.input_values<void>(), g, in.bits, q_b, pixels, channels, real.to_real, in.zero_point,
                      real.bias != nullptr ? room.bias : nullptr, approximate, clip, static_cast<int32_t*>(room.sums)},
                     context.threads);
    } else {
      with_activation_type(in.bits, [&](auto from) {
        const auto* x = context.input_values<decltype(from)>();
        parallel_for(context.threads, pixels, kElementGrain / channels, [&](int64_t first, int64_t last, int) {
          for (int64_t i = first * channels; i < last * channels; ++i) {
            const int64_t u = real(x[i], static_cast<int32_t>(i % channels));
            const int64_t size = u < 0 ? -u : u;
            const int64_t slope = (int64_t{1} << 15) - (size >> 1);
            sums[i] = static_cast<Sum>(g[i] * (approximate ? (slope > 0 ? slope : 0) : size <= clip));
          }
        });
      });
    }
    if (Parameter* bias = context.parameter(kBias)) {
      for (int32_t c = 0; c < channels; ++c) room.bias_sum[c] = 0;
      if constexpr (sizeof(Sum) == sizeof(int32_t)) {
        channel_sum_loop({sums, pixels, channels, room.bias_sum});
      } else {
        for (int64_t i = 0; i < int64_t{pixels} * channels; ++i) room.bias_sum[i % channels] += sums[i];
      }
      for (int32_t c = 0; c < channels; ++c) update_parameter(*bias, c, room.bias_sum[c], step_of(context, *bias), exponent);
    }
    if (context.needs_input_gradient()) write_input_gradient(context, 0, sums, exponent);
  });
}

}  // namespace everbit
