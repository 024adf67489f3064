// Max and global max pools. A gradient goes to the place that won; at most one gradient a tap meets there, 255^2 of them, below 2^31.
#include "layers.h"
#include "same_numbers.h"
#include "window.h"

namespace everbit {
namespace {

enum Attribute { kKernel, kStride, kPadding, kSkew };

constexpr int32_t kMaxWinners = 1 << 16;

Window window_of(const LayerRecord& layer) {
  const int32_t* a = layer.attributes;
  return {a[kKernel], a[kKernel], a[kStride], a[kPadding], left_padding(a[kPadding], a[kSkew])};
}

Window whole_map(const TensorRecord& in) { return {in.height, in.width, 1, 0, 0}; }

void forward(const Context& context, const Window& window) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  uint16_t* winner = context.training ? static_cast<uint16_t*>(context.saved) : nullptr;
  with_activation_type(out.bits, [&](auto type) {
    const auto* x = context.input_values<decltype(type)>();
    auto* y = context.output_values<decltype(type)>();
    for (int32_t p = 0; p < context.batch * out.pixels(); ++p) {
      const auto* image = x + static_cast<size_t>(p / out.pixels()) * static_cast<size_t>(in.elements());
      const int32_t place = p % out.pixels();
      for (int32_t c = 0; c < out.channels; ++c) {
        int64_t best = INT64_MIN;
        int32_t best_tap = 0;
        for_each_tap(window, in, place / out.width, place % out.width, [&](int32_t tap, int32_t pixel) {
          if (pixel == kAbsent || image[pixel * in.channels + c] <= best) return;
          best = image[pixel * in.channels + c];
          best_tap = tap;
        });
        *y++ = static_cast<decltype(type)>(best);
        if (winner != nullptr) *winner++ = static_cast<uint16_t>(best_tap);
      }
    }
  });
}

void backward(const Context& context, const Window& window) {
  if (!context.needs_input_gradient()) return;
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  const uint16_t* winner = static_cast<const uint16_t*>(context.saved);
  const size_t elements = static_cast<size_t>(context.batch) * static_cast<size_t>(in.elements());
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    using Sum = decltype(accumulator);
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    Sum* sums = static_cast<Sum*>(context.scratch);
    for (size_t i = 0; i < elements; ++i) sums[i] = 0;
    for (int32_t p = 0; p < context.batch * out.pixels(); ++p) {
      Sum* image = sums + static_cast<size_t>(p / out.pixels()) * static_cast<size_t>(in.elements());
      const int32_t row = p % out.pixels() / out.width * window.stride - window.top;
      const int32_t column = p % out.pixels() % out.width * window.stride - window.left;
      for (int32_t c = 0; c < out.channels; ++c) {
        const int32_t tap = winner[p * out.channels + c];
        const int32_t pixel = (row + tap / window.kernel_width) * in.width + column + tap % window.kernel_width;
        image[pixel * in.channels + c] += g[p * out.channels + c];
      }
    }
    write_input_gradient(context, 0, sums, gradient.exponent);
  });
}

}  // namespace

// The winning tap of every output; 255 x 255 taps, or the places of a map that learns, need two bytes.
size_t max_pool_saved(const Extent& extent) {
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(out.elements()) * sizeof(uint16_t);
}

// One accumulator for every element of the input.
size_t max_pool_scratch(const Extent& extent) {
  const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()) * accumulator_bytes(extent.widths.non_binary);
}

const char* max_pool_check(const Program& program, const LayerRecord& layer) {
  if (const char* problem = same_numbers_check(program, layer)) return problem;
  return window_check(window_of(layer), program.tensor(layer.inputs[0]), program.tensor(layer.output));
}

void max_pool_forward(const Context& context) { forward(context, window_of(context.layer)); }

void max_pool_backward(const Context& context) { backward(context, window_of(context.layer)); }

const char* global_max_pool_check(const Program& program, const LayerRecord& layer) {
  if (const char* problem = same_numbers_check(program, layer)) return problem;
  if (program.tensor(layer.output).pixels() != 1) return "a global max pool must turn each channel into one value";
  const bool winners_fit = program.tensor(layer.inputs[0]).pixels() <= kMaxWinners || !program.learnable(layer);
  return winners_fit ? nullptr : "a global max pool learns on more than 65536 places";
}

void global_max_pool_forward(const Context& context) { forward(context, whole_map(context.input())); }

void global_max_pool_backward(const Context& context) { backward(context, whole_map(context.input())); }

}  // namespace everbit
