// Two tensors side by side in their channels, each brought to the numbers of the output; gradients are slices. |A| < 2^30 times a
// difference of 31 bits and a sign stays below 2^62.
#include "../parallel.h"
#include "affine.h"
#include "layers.h"

namespace everbit {
namespace {

constexpr int kConstants = 2;  // A and s of each input

}  // namespace

const char* concat_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& out = program.tensor(layer.output);
  int32_t channels = 0;
  for (int k = 0; k < 2; ++k) {
    const TensorRecord& in = program.tensor(layer.inputs[k]);
    if (in.bits == 1 || in.height != out.height || in.width != out.width) {
      return "a concat reads tensors of different shapes, or single bits";
    }
    channels += in.channels;
    const int32_t* a = layer.attributes + k * kConstants;
    if (a[0] < -kMaxWideFactor || a[0] > kMaxWideFactor || a[1] < 0 || a[1] > kMaxWideShift) {
      return "a concat has constants out of range";
    }
  }
  return out.bits != 1 && out.channels == channels ? nullptr : "a concat does not write the channels of both its inputs";
}

size_t concat_scratch(const Extent& extent) {
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(out.elements()) * accumulator_bytes(extent.widths.non_binary);
}

void concat_forward(const Context& context) {
  const TensorRecord& out = context.output();
  int32_t first = 0;
  for (int k = 0; k < 2; ++k) {
    const TensorRecord& in = context.input(k);
    const int32_t* a = context.layer.attributes + k * kConstants;
    with_activation_type(in.bits, [&](auto from) {
      with_activation_type(out.bits, [&](auto to) {
        parallel_for(context.threads, context.batch * out.pixels(), kElementGrain / in.channels, [&](int64_t start, int64_t end, int) {
          const auto* __restrict x = context.input_values<decltype(from)>(k) + start * in.channels;
          auto* __restrict y = context.output_values<decltype(to)>() + start * out.channels + first;
          const int64_t factor = a[0];
          const int32_t shift = a[1], channels = in.channels, zero_point = in.zero_point, out_zero_point = out.zero_point;
          for (int64_t p = start; p < end; ++p, x += channels, y += out.channels) {
            for (int32_t c = 0; c < channels; ++c) {
              const int64_t moved = rounding_shift((int64_t{x[c]} - zero_point) * factor, shift);
              y[c] = static_cast<decltype(to)>(saturate(out_zero_point + moved, 8 * sizeof(to)));
            }
          }
        });
      });
    });
    first += in.channels;
  }
}

void concat_backward(const Context& context) {
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    auto* sums = static_cast<decltype(accumulator)*>(context.scratch);
    int32_t first = 0;
    for (int k = 0; k < 2; ++k) {
      const int32_t channels = context.input(k).channels;
      const auto* g = static_cast<const decltype(element)*>(gradient.values) + first;
      first += channels;
      if (!context.needs_input_gradient(k)) continue;
      parallel_for(context.threads, context.batch * out.pixels(), kElementGrain / channels, [&](int64_t start, int64_t end, int) {
        for (int64_t p = start; p < end; ++p) {
          for (int32_t c = 0; c < channels; ++c) sums[p * channels + c] = g[p * out.channels + c];
        }
      });
      write_input_gradient(context, k, sums, gradient.exponent);
    }
  });
}

}  // namespace everbit
