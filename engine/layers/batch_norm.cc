// Batch norm with frozen statistics, gamma and beta trained on xhat (docs/arithmetic.md, sections 3 and 4).
//
// xhat stays as 16 bits in units of 2^-11 for d gamma. Bounds: gamma16 * xhat is below 2^30; F below 2^15, so that G * F fits int32 for
// q_b <= 16 and int64 for 32.
#include <initializer_list>

#include "../kernels/elementwise/elementwise.h"
#include "affine.h"
#include "layers.h"

namespace everbit {
namespace {

constexpr int kOutputScale = 0;    // attributes
constexpr int kInputExponent = 2;
constexpr int kXhatFraction = 11;
constexpr int kGamma = 0;          // parameters
constexpr int kBeta = 1;

size_t elements(const Extent& extent) {
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(extent.program.tensor(extent.layer.output).elements());
}

size_t channels(const Extent& extent) { return static_cast<size_t>(extent.program.tensor(extent.layer.output).channels); }

// F[c] and the exponent that goes with G * F[c].
int32_t gradient_factors(const Context& context, int32_t* F) {
  const AffineConstants affine = affine_constants(context.program, context.layer);
  const Parameter& gamma = *context.parameter(kGamma);
  const int32_t channels = context.output().channels;
  int least = affine.s[0];
  for (int32_t c = 1; c < channels; ++c) least = affine.s[c] < least ? affine.s[c] : least;
  int length = 0;
  for (int32_t c = 0; c < channels; ++c) {
    F[c] = static_cast<int32_t>(rounding_shift(int64_t{gamma.forward16(c)} * affine.A[c], affine.s[c] - least));
    length = bit_length(F[c]) > length ? bit_length(F[c]) : length;
  }
  const int shift = length > 15 ? length - 15 : 0;
  for (int32_t c = 0; c < channels; ++c) F[c] = static_cast<int32_t>(rounding_shift(F[c], shift));
  return gamma.range_exponent - 15 - least + shift - kXhatFraction - context.layer.attributes[kInputExponent];
}

}  // namespace

const char* batch_norm_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || out.bits == 1 || in.elements() != out.elements() || in.channels != out.channels) {
    return "a batch norm changes the shape of its input, or reads or writes single bits";
  }
  if (in.bits == 32) return "a batch norm that learns reads 32 bits: its xhat has 16";
  for (const int k : {kGamma, kBeta}) {
    if (layer.parameters[k] == kAbsent || program.parameter(layer.parameters[k]).count != in.channels) {
      return "a batch norm needs one gamma and one beta a channel";
    }
  }
  if (!valid_scale(layer.scale_attribute(kOutputScale)) || layer.attributes[kInputExponent] < -64 ||
      layer.attributes[kInputExponent] > 64) {
    return "a batch norm has an impossible scale";
  }
  return affine_constants_check(program, layer, in.channels);
}

size_t batch_norm_saved(const Extent& extent) { return elements(extent) * sizeof(int16_t); }

size_t batch_norm_scratch(const Extent& extent) {
  const size_t forward = channels(extent) * 2 * sizeof(int32_t);
  const size_t factors = channels(extent) * sizeof(int64_t);  // room for F and for the sums of d gamma and d beta
  return 3 * factors + elements(extent) * accumulator_bytes(extent.widths.non_binary) + forward;
}

void batch_norm_forward(const Context& context) {
  const TensorRecord& out = context.output();
  const AffineConstants affine = affine_constants(context.program, context.layer);
  const Parameter& gamma = *context.parameter(kGamma);
  const Parameter& beta = *context.parameter(kBeta);
  const Scale to_output = context.layer.scale_attribute(kOutputScale);
  const int align = beta.range_exponent - gamma.range_exponent + kXhatFraction;
  int32_t* gamma16 = static_cast<int32_t*>(context.scratch);
  int32_t* offset = gamma16 + out.channels;
  for (int32_t c = 0; c < out.channels; ++c) {
    gamma16[c] = gamma.forward16(c);
    offset[c] = saturate(shift_either_way(beta.forward16(c), align), 32);
  }
  int16_t* xhat = context.training ? static_cast<int16_t*>(context.saved) : nullptr;
  norm_loop({{context.input_values<void>(), context.output_values<void>(), context.input().bits, out.bits,
              context.batch * out.pixels(), out.channels, affine.A, affine.B, affine.s, out.zero_point},
             xhat,
             gamma16,
             offset,
             to_output});
}

void batch_norm_backward(const Context& context) {
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  const int16_t* xhat = static_cast<const int16_t*>(context.saved);
  Parameter& gamma = *context.parameter(kGamma);
  Parameter& beta = *context.parameter(kBeta);
  const size_t channels = static_cast<size_t>(out.channels);
  const size_t pixels = static_cast<size_t>(context.batch) * static_cast<size_t>(out.pixels());

  int64_t* gamma_sum = static_cast<int64_t*>(context.scratch);
  int64_t* beta_sum = gamma_sum + channels;
  int32_t* F = reinterpret_cast<int32_t*>(beta_sum + channels);
  for (size_t c = 0; c < channels; ++c) gamma_sum[c] = beta_sum[c] = 0;

  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    using Sum = decltype(accumulator);
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    for (size_t p = 0; p < pixels; ++p) {
      for (size_t c = 0; c < channels; ++c) {
        const int64_t v = g[p * channels + c];
        beta_sum[c] += v;
        gamma_sum[c] += v * xhat[p * channels + c];
      }
    }
    if (context.needs_input_gradient()) {
      const int32_t exponent = gradient.exponent + gradient_factors(context, F);
      Sum* sums = reinterpret_cast<Sum*>(F + 2 * channels);
      for (size_t p = 0; p < pixels; ++p) {
        for (size_t c = 0; c < channels; ++c) sums[p * channels + c] = static_cast<Sum>(g[p * channels + c]) * F[c];
      }
      write_gradient(context.gradients[context.layer.inputs[0]], sums, pixels * channels, exponent, context.widths.non_binary);
    }
  });
  for (int32_t c = 0; c < out.channels; ++c) {
    update_parameter(gamma, c, gamma_sum[c], step_of(context, gamma), gradient.exponent - kXhatFraction);
    update_parameter(beta, c, beta_sum[c], step_of(context, beta), gradient.exponent);
  }
}

}  // namespace everbit
