// RPReLU (ReActNet): a bias, a PReLU with one slope a channel, a bias. Either bias may be absent.
//
// u, the value before the PReLU, is in units of 2^-16. Bounds: slope16 * u is below 2^46; the gradient factor is at most 2^15.
#include <initializer_list>

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

int32_t before_prelu(const Context& context, int32_t q, int32_t c) {
  const int64_t u = scale(q - context.input().zero_point, context.layer.scale_attribute(kInputScale));
  return saturate(u + bias16(context.parameter(kPre), c), 32);
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

size_t rprelu_scratch(const Extent& extent) {
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  const size_t sums = static_cast<size_t>(extent.batch) * static_cast<size_t>(out.elements()) * accumulator_bytes(extent.widths.non_binary);
  return sums + 3 * static_cast<size_t>(out.channels) * sizeof(int64_t);
}

void rprelu_forward(const Context& context) {
  const TensorRecord& out = context.output();
  const Parameter& slope = *context.parameter(kSlope);
  const Scale to_output = context.layer.scale_attribute(kOutputScale);
  const int32_t pixels = context.batch * out.pixels();
  with_activation_type(context.input().bits, [&](auto from) {
    with_activation_type(out.bits, [&](auto to) {
      const auto* x = context.input_values<decltype(from)>();
      auto* y = context.output_values<decltype(to)>();
      for (int32_t c = 0; c < out.channels; ++c) {
        const int64_t slope16 = slope.forward16(c);
        const int64_t post = bias16(context.parameter(kPost), c);
        for (int32_t p = 0; p < pixels; ++p) {
          const int32_t u = before_prelu(context, x[p * out.channels + c], c);
          const int32_t v = u > 0 ? u : saturate(rounding_shift(slope16 * u, 15 - slope.range_exponent), 32);
          const int64_t q = out.zero_point + int64_t{scale(saturate(v + post, 32), to_output)};
          y[p * out.channels + c] = static_cast<decltype(to)>(saturate(q, out.bits));
        }
      }
    });
  });
}

void rprelu_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const Gradient& gradient = context.output_gradient();
  Parameter& slope = *context.parameter(kSlope);
  const int32_t shift = 15 - slope.range_exponent;
  const int32_t channels = in.channels;
  const size_t pixels = static_cast<size_t>(context.batch) * static_cast<size_t>(in.pixels());

  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    using Sum = decltype(accumulator);
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    int64_t* parameter_sums[3];
    for (int k = 0; k < 3; ++k) parameter_sums[k] = static_cast<int64_t*>(context.scratch) + k * channels;
    Sum* sums = reinterpret_cast<Sum*>(static_cast<int64_t*>(context.scratch) + 3 * channels);
    with_activation_type(in.bits, [&](auto from) {
      const auto* x = context.input_values<decltype(from)>();
      for (int32_t c = 0; c < channels; ++c) {
        int64_t pre_sum = 0, slope_sum = 0, post_sum = 0;
        const int32_t slope16 = slope.forward16(c);
        for (size_t p = 0; p < pixels; ++p) {
          const size_t i = p * static_cast<size_t>(channels) + static_cast<size_t>(c);
          const int32_t u = before_prelu(context, x[i], c);
          sums[i] = static_cast<Sum>(g[i]) * (u > 0 ? int32_t{1} << shift : slope16);
          pre_sum += sums[i];
          post_sum += g[i];
          if (u <= 0) slope_sum += int64_t{g[i]} * saturate(rounding_shift(u, 5), 16);
        }
        parameter_sums[kPre][c] = pre_sum;
        parameter_sums[kSlope][c] = slope_sum;
        parameter_sums[kPost][c] = post_sum;
      }
    });
    if (context.needs_input_gradient()) {
      write_input_gradient(context, 0, sums, gradient.exponent - shift);
    }
    const int32_t exponents[3] = {gradient.exponent - shift, gradient.exponent - 11, gradient.exponent};
    for (int k = 0; k < 3; ++k) {
      Parameter* p = context.parameter(k);
      for (int32_t c = 0; p != nullptr && c < channels; ++c) {
        update_parameter(*p, c, parameter_sums[k][c], step_of(context, *p), exponents[k]);
      }
    }
  });
}

}  // namespace everbit
