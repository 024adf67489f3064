// RPReLU (ReActNet): a bias, a PReLU with one slope a channel, a bias. Either bias may be absent.
//
// u, the value before the PReLU, is in units of 2^-16. Bounds: slope16 * u is below 2^46; the gradient factor is at most 2^15.
#include <initializer_list>

#include "../kernels/elementwise/elementwise.h"
#include "../kernels/gradient/gradient.h"
#include "../memory.h"
#include "../parallel.h"
#include "layers.h"

namespace everbit {
namespace {

constexpr int kInputScale = 0;  // attributes
constexpr int kOutputScale = 2;
enum { kPre, kSlope, kPost };   // parameters

// A bias in units of 2^-16; 0 where absent.
int64_t bias16(const Parameter* bias, int32_t c) {
  return bias == nullptr ? 0 : shift_either_way(bias->forward16(c), bias->range_exponent + 1);
}

}  // namespace

const char* rprelu_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || out.bits == 1 || in.elements() != out.elements() || in.channels != out.channels) {
    return "an RPReLU changes the shape of its input, or reads or writes single bits";
  }
  if (layer.parameters[kSlope] == kAbsent) return "an RPReLU has no slope";
  for (const int32_t index : layer.parameters) {
    if (index != kAbsent && program.parameter(index).count != in.channels) return "an RPReLU needs one parameter a channel";
  }
  for (const int k : {kPre, kPost}) {
    if (layer.parameters[k] != kAbsent && program.parameter(layer.parameters[k]).range_exponent < -1) {
      return "an RPReLU's bias has too small a range";
    }
  }
  const int32_t slope_range = program.parameter(layer.parameters[kSlope]).range_exponent;
  if (slope_range < 0 || slope_range > 15 || !valid_scale(layer.scale_attribute(kInputScale)) ||
      !valid_scale(layer.scale_attribute(kOutputScale))) {
    return "an RPReLU has an impossible scale";
  }
  return nullptr;
}

namespace {

constexpr int32_t kPixelsAtOnce = 32;  // that share the constants of a channel where there is no loop over vectors

struct Scratch {
  int32_t* pre;            // channels; biases in units of 2^-16
  int32_t* slope;          // channels
  int32_t* post;           // channels
  int64_t* parameter_sums; // threads x 3 x channels
  void* sums;              // one a value

  Scratch(Region& s, const Extent& extent) {
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const size_t channels = static_cast<size_t>(in.channels);
    const size_t learning = extent.program.learnable(extent.layer) ? 1 : 0;
    const size_t elements = learning * static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements());
    pre = s.take<int32_t>(channels);
    slope = s.take<int32_t>(channels);
    post = s.take<int32_t>(channels);
    parameter_sums = s.take<int64_t>(learning * 3 * channels * static_cast<size_t>(extent.threads));
    sums = s.take<uint8_t>(elements * accumulator_bytes(extent.widths.non_binary));
  }
};

// Whether a bias fits 32 bits in every channel; if so, `to` is filled.
bool fill(const Parameter* bias, int32_t channels, int32_t* to) {
  for (int32_t c = 0; c < channels; ++c) {
    const int64_t value = bias16(bias, c);
    if (value != static_cast<int32_t>(value)) return false;
    to[c] = static_cast<int32_t>(value);
  }
  return true;
}

// Calls f(channel, first value, last value) for the values of a channel at some pixels, one every `channels`; kPixelsAtOnce pixels have all
// their channels' turns before the next.
template <typename F>
void by_channel(int64_t first, int64_t last, int32_t channels, F&& f) {
  for (int64_t p = first; p < last; p += kPixelsAtOnce) {
    const int64_t end = last - p < kPixelsAtOnce ? last : p + kPixelsAtOnce;
    for (int32_t c = 0; c < channels; ++c) f(c, p * channels + c, end * channels + c);
  }
}

}  // namespace

size_t rprelu_scratch(const Extent& extent) {
  Region region;
  Scratch(region, extent);
  return region.used;
}

void rprelu_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Parameter& slope = *context.parameter(kSlope);
  const Scale to_real = context.layer.scale_attribute(kInputScale);
  const Scale to_output = context.layer.scale_attribute(kOutputScale);
  const int32_t shift = 15 - slope.range_exponent;
  const int32_t channels = out.channels;
  const int32_t pixels = context.batch * out.pixels();
  Region region{static_cast<uint8_t*>(context.scratch)};
  const Scratch room(region, extent_of(context));
  if (in.bits <= 16 && ordinary(to_real) && ordinary(to_output) && to_output.exponent <= 0 &&
      fill(context.parameter(kPre), channels, room.pre) && fill(context.parameter(kPost), channels, room.post)) {
    for (int32_t c = 0; c < channels; ++c) room.slope[c] = slope.forward16(c);
    prelu_loop({context.input_values<void>(), context.output_values<void>(), in.bits, out.bits, pixels, channels, to_real, in.zero_point,
                room.pre, room.slope, shift, room.post, to_output, out.zero_point}, context.threads);
    return;
  }
  with_activation_type(in.bits, [&](auto from) {
    with_activation_type(out.bits, [&](auto to) {
      const auto* x = context.input_values<decltype(from)>();
      auto* y = context.output_values<decltype(to)>();
      parallel_for(context.threads, pixels, kElementGrain / channels, [&](int64_t first, int64_t last, int) {
        by_channel(first, last, channels, [&](int32_t c, int64_t start, int64_t end) {
          const int64_t slope16 = slope.forward16(c);
          const int64_t pre = bias16(context.parameter(kPre), c);
          const int64_t post = bias16(context.parameter(kPost), c);
          for (int64_t i = start; i < end; i += channels) {
            const int32_t u = saturate(scale(x[i] - in.zero_point, to_real) + pre, 32);
            const int32_t v = u > 0 ? u : saturate(rounding_shift(slope16 * u, shift), 32);
            const int64_t q = out.zero_point + int64_t{scale(saturate(v + post, 32), to_output)};
            y[i] = static_cast<decltype(to)>(saturate(q, out.bits));
          }
        });
      });
    });
  });
}

void rprelu_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const Gradient& gradient = context.output_gradient();
  const Parameter& slope = *context.parameter(kSlope);
  const Scale to_real = context.layer.scale_attribute(kInputScale);
  const int32_t shift = 15 - slope.range_exponent;
  const int32_t channels = in.channels;
  const int32_t pixels = context.batch * in.pixels();
  const int q_b = context.widths.non_binary;
  Region region{static_cast<uint8_t*>(context.scratch)};
  const Scratch room(region, extent_of(context));
  const int32_t three = 3 * channels;
  const int32_t all = context.threads * three;
  for (int32_t i = 0; i < all; ++i) room.parameter_sums[i] = 0;
  for (int32_t c = 0; c < channels; ++c) room.slope[c] = slope.forward16(c);
  const bool has_loop = in.bits <= 16 && q_b <= 16 && ordinary(to_real) && fill(context.parameter(kPre), channels, room.pre);

  with_gradient_type(q_b, [&](auto element, auto accumulator) {
    using Sum = decltype(accumulator);
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    Sum* sums = static_cast<Sum*>(room.sums);
    parallel_for(context.threads, pixels, kElementGrain / channels, [&](int64_t first, int64_t last, int thread) {
      int64_t* pre_sums = room.parameter_sums + int64_t{thread} * three;
      int64_t* slope_sums = pre_sums + channels;
      int64_t* post_sums = slope_sums + channels;
      if (has_loop) {
        prelu_gradient_loop({element_at(context.input_values<void>(), first * channels, in.bits), g + first * channels, in.bits, q_b,
                             static_cast<int32_t>(last - first), channels, to_real, in.zero_point, room.pre, room.slope, shift,
                             static_cast<int32_t*>(room.sums) + first * channels, pre_sums, slope_sums, post_sums});
        return;
      }
      with_activation_type(in.bits, [&](auto from) {
        const auto* x = context.input_values<decltype(from)>();
        by_channel(first, last, channels, [&](int32_t c, int64_t start, int64_t end) {
          const int64_t pre = bias16(context.parameter(kPre), c);
          for (int64_t i = start; i < end; i += channels) {
            const int32_t u = saturate(scale(x[i] - in.zero_point, to_real) + pre, 32);
            sums[i] = static_cast<Sum>(g[i]) * (u > 0 ? int32_t{1} << shift : room.slope[c]);
            pre_sums[c] += sums[i];
            post_sums[c] += g[i];
            if (u <= 0) slope_sums[c] += int64_t{g[i]} * saturate(rounding_shift(u, 5), 16);
          }
        });
      });
    });
    if (context.needs_input_gradient()) write_input_gradient(context, 0, sums, gradient.exponent - shift);
  });
  for (int32_t i = three; i < all; ++i) room.parameter_sums[i % three] += room.parameter_sums[i];
  const int32_t exponents[3] = {gradient.exponent - shift, gradient.exponent - 11, gradient.exponent};
  for (int k = 0; k < 3; ++k) {
    Parameter* p = context.parameter(k);
    for (int32_t c = 0; p != nullptr && c < channels; ++c) {
      update_parameter(*p, c, room.parameter_sums[k * channels + c], step_of(context, *p), exponents[k]);
    }
  }
}

}  // namespace everbit
