// A map to one place, [H, W, C] -> [1, 1, C * H * W], channel by channel as PyTorch flattens, so that layers behind it keep its order.
#include "../bits.h"
#include "../parallel.h"
#include "layers.h"

namespace everbit {
namespace {

// Calls f(flat index, index in the map) for all values of one image.
template <typename F>
void for_each_value(const TensorRecord& in, F&& f) {
  int32_t flat = 0;
  for (int32_t c = 0; c < in.channels; ++c) {
    for (int32_t p = 0; p < in.pixels(); ++p, ++flat) f(flat, p, c);
  }
}

void flatten_bits(const TensorRecord& in, const uint64_t* x, uint64_t* y) {
  const int32_t words = words_for(in.channels);
  for (int32_t w = 0; w < words_for(in.elements()); ++w) y[w] = 0;
  for_each_value(in, [&](int32_t flat, int32_t p, int32_t c) {
    y[flat / 64] |= ((x[p * words + c / 64] >> (c & 63)) & 1) << (flat & 63);
  });
}

}  // namespace

const char* flatten_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits != out.bits || in.zero_point != out.zero_point || out.pixels() != 1 || in.elements() != out.channels) {
    return "a flatten must turn a map into the channels of one place";
  }
  return nullptr;
}

size_t flatten_scratch(const Extent& extent) {
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(out.elements()) * accumulator_bytes(extent.widths.non_binary);
}

void flatten_forward(const Context& context) {
  const TensorRecord& in = context.input();
  parallel_for(context.threads, context.batch, kElementGrain / in.elements(), [&](int64_t first, int64_t last, int) {
    for (int64_t b = first; b < last; ++b) {
      if (in.bits == 1) {
        flatten_bits(in, context.input_values<uint64_t>() + b * in.pixels() * words_for(in.channels),
                     context.output_values<uint64_t>() + b * words_for(in.elements()));
        continue;
      }
      with_activation_type(in.bits, [&](auto type) {
        const auto* x = context.input_values<decltype(type)>() + b * in.elements();
        auto* y = context.output_values<decltype(type)>() + b * in.elements();
        for_each_value(in, [&](int32_t flat, int32_t p, int32_t c) { y[flat] = x[p * in.channels + c]; });
      });
    }
  });
}

void flatten_backward(const Context& context) {
  if (!context.needs_input_gradient()) return;
  const TensorRecord& in = context.input();
  const Gradient& gradient = context.output_gradient();
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    auto* sums = static_cast<decltype(accumulator)*>(context.scratch);
    parallel_for(context.threads, context.batch, kElementGrain / in.elements(), [&](int64_t first, int64_t last, int) {
      for (int64_t b = first; b < last; ++b) {
        const auto* g = static_cast<const decltype(element)*>(gradient.values) + b * in.elements();
        auto* image = sums + b * in.elements();
        for_each_value(in, [&](int32_t flat, int32_t p, int32_t c) { image[p * in.channels + c] = g[flat]; });
      }
    });
    write_input_gradient(context, 0, sums, gradient.exponent);
  });
}

}  // namespace everbit
