// Batch norm with frozen statistics, gamma and beta trained on xhat (docs/arithmetic.md, sections 3 and 4).
//
// xhat stays as 16 bits in units of 2^-11 for d gamma. Bounds: gamma16 * xhat is below 2^30; F below 2^15, so that G * F fits int32 for
// q_b <= 16 and int64 for 32.
#include <initializer_list>

#include "../kernels/elementwise/elementwise.h"
#include "../kernels/gradient/gradient.h"
#include "../memory.h"
#include "../parallel.h"
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

struct BackwardScratch {
  int64_t* gamma_sums;  // threads x channels
  int64_t* beta_sums;   // threads x channels
  int32_t* F;           // channels
  void* sums;           // one a value

  BackwardScratch(Region& s, int threads, size_t channels, size_t elements, int q_b)
      : gamma_sums(s.take<int64_t>(static_cast<size_t>(threads) * channels)),
        beta_sums(s.take<int64_t>(static_cast<size_t>(threads) * channels)),
        F(s.take<int32_t>(channels)),
        sums(s.take<uint8_t>(elements * accumulator_bytes(q_b))) {}
};

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
  Region backward;
  BackwardScratch(backward, extent.threads, channels(extent), elements(extent), extent.widths.non_binary);
  return forward > backward.used ? forward : backward.used;
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
             to_output}, context.threads);
}

void batch_norm_backward(const Context& context) {
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  const int16_t* xhat = static_cast<const int16_t*>(context.saved);
  Parameter& gamma = *context.parameter(kGamma);
  Parameter& beta = *context.parameter(kBeta);
  const int32_t channels = out.channels;
  const int32_t pixels = context.batch * out.pixels();
  const int q_b = context.widths.non_binary;
  const size_t count = static_cast<size_t>(channels) * static_cast<size_t>(context.threads);
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  const BackwardScratch room(scratch, context.threads, static_cast<size_t>(channels),
                             static_cast<size_t>(pixels) * static_cast<size_t>(channels), q_b);
  for (size_t i = 0; i < count; ++i) room.gamma_sums[i] = room.beta_sums[i] = 0;
  const bool passes = context.needs_input_gradient();
  const int32_t exponent = passes ? gradient.exponent + gradient_factors(context, room.F) : 0;

  with_gradient_type(q_b, [&](auto element, auto accumulator) {
    using Sum = decltype(accumulator);
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    Sum* sums = passes ? static_cast<Sum*>(room.sums) : nullptr;
    parallel_for(context.threads, pixels, kElementGrain / channels, [&](int64_t first, int64_t last, int thread) {
      int64_t* gamma_sum = room.gamma_sums + int64_t{thread} * channels;
      int64_t* beta_sum = room.beta_sums + int64_t{thread} * channels;
      const int64_t start = first * channels;
      if constexpr (sizeof(Sum) == sizeof(int32_t)) {
        norm_gradient_loop({g + start, q_b, xhat + start, static_cast<int32_t>(last - first), channels, room.F,
                            passes ? sums + start : nullptr, gamma_sum, beta_sum});
      } else {
        for (int64_t i = start; i < last * channels; ++i) {
          const int64_t c = i % channels;
          beta_sum[c] += g[i];
          gamma_sum[c] += int64_t{g[i]} * xhat[i];
          if (passes) sums[i] = static_cast<Sum>(g[i]) * room.F[c];
        }
      }
    });
    if (passes) write_input_gradient(context, 0, sums, exponent);
  });
  for (size_t i = static_cast<size_t>(channels); i < count; ++i) {
    room.gamma_sums[i % static_cast<size_t>(channels)] += room.gamma_sums[i];
    room.beta_sums[i % static_cast<size_t>(channels)] += room.beta_sums[i];
  }
  for (int32_t c = 0; c < channels; ++c) {
    update_parameter(gamma, c, room.gamma_sums[c], step_of(context, gamma), gradient.exponent - kXhatFraction);
    update_parameter(beta, c, room.beta_sums[c], step_of(context, beta), gradient.exponent);
  }
}

}  // namespace everbit
