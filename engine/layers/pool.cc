// Average, max and global average pools. Gradients of means are multiplied by a 15-bit mantissa of 1 / count, below 2^30 for q_b <= 16;
// a max pool adds at most one gradient a tap, 255^2 of them, below 2^31.
#include <type_traits>

#include "layers.h"
#include "window.h"

namespace everbit {
namespace {

Window average_window(const LayerRecord& layer) { return {layer.attributes[0], layer.attributes[0], layer.attributes[0], 0}; }

Window max_window(const LayerRecord& layer) {
  return {layer.attributes[0], layer.attributes[0], layer.attributes[1], layer.attributes[2]};
}

const char* same_numbers_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || in.bits != out.bits || in.zero_point != out.zero_point || in.channels != out.channels) {
    return "a pool changes channels, width or zero point, or reads single bits";
  }
  return nullptr;
}

// Spreads every gradient over the `window` below its place, times 1 / count.
void mean_backward(const Context& context, const Window& window, int32_t count) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  const Scale share = reciprocal(static_cast<uint32_t>(count));
  const int32_t mantissa = share.mantissa >> 16;
  const size_t elements = static_cast<size_t>(context.batch) * static_cast<size_t>(in.elements());
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    using Sum = decltype(accumulator);
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    Sum* sums = static_cast<Sum*>(context.scratch);
    for (size_t i = 0; i < elements; ++i) sums[i] = 0;
    for (int32_t p = 0; p < context.batch * out.pixels(); ++p) {
      Sum* image = sums + static_cast<size_t>(p / out.pixels()) * static_cast<size_t>(in.elements());
      const int32_t place = p % out.pixels();
      for_each_tap(window, in, place / out.width, place % out.width, [&](int32_t, int32_t pixel) {
        for (int32_t c = 0; c < in.channels; ++c) {
          image[pixel * in.channels + c] = static_cast<Sum>(g[p * in.channels + c]) * mantissa;
        }
      });
    }
    write_input_gradient(context, 0, sums, gradient.exponent + share.exponent - 15);
  });
}

}  // namespace

size_t pool_scratch(const Extent& extent) {
  const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()) * accumulator_bytes(extent.widths.non_binary);
}

const char* average_pool_check(const Program& program, const LayerRecord& layer) {
  if (const char* problem = same_numbers_check(program, layer)) return problem;
  return window_check(average_window(layer), program.tensor(layer.inputs[0]), program.tensor(layer.output));
}

void average_pool_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = average_window(context.layer);
  const int halvings = bit_length(window.taps()) - 1;
  const bool divides = window.taps() == 1 << halvings;  // a power of two needs no division
  with_activation_type(out.bits, [&](auto type) {
    const auto* x = context.input_values<decltype(type)>();
    auto* y = context.output_values<decltype(type)>();
    for (int32_t p = 0; p < context.batch * out.pixels(); ++p) {
      const auto* image = x + static_cast<size_t>(p / out.pixels()) * static_cast<size_t>(in.elements());
      const int32_t place = p % out.pixels();
      const auto* corner = image + (place / out.width * in.width + place % out.width) * window.stride * in.channels;
      for (int32_t c = 0; c < out.channels; ++c) {
        std::conditional_t<sizeof(type) == sizeof(int32_t), int64_t, int32_t> sum = 0;  // 255^2 values
        for (int32_t i = 0; i < window.kernel_height; ++i) {
          for (int32_t j = 0; j < window.kernel_width; ++j) sum += corner[(i * in.width + j) * in.channels + c];
        }
        const int64_t centred = sum - int64_t{window.taps()} * in.zero_point;
        const int64_t mean = divides ? rounding_shift(centred, halvings) : rounding_divide(centred, window.taps());
        *y++ = static_cast<decltype(type)>(saturate(out.zero_point + mean, out.bits));
      }
    }
  });
}

void average_pool_backward(const Context& context) {
  const Window window = average_window(context.layer);
  if (context.needs_input_gradient()) mean_backward(context, window, window.taps());
}

const char* max_pool_check(const Program& program, const LayerRecord& layer) {
  if (const char* problem = same_numbers_check(program, layer)) return problem;
  return window_check(max_window(layer), program.tensor(layer.inputs[0]), program.tensor(layer.output));
}

// The winning tap of every output; 255 x 255 taps need two bytes.
size_t max_pool_saved(const Extent& extent) {
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(out.elements()) * sizeof(uint16_t);
}

void max_pool_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = max_window(context.layer);
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

void max_pool_backward(const Context& context) {
  if (!context.needs_input_gradient()) return;
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = max_window(context.layer);
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
      const int32_t row = p % out.pixels() / out.width * window.stride - window.padding;
      const int32_t column = p % out.pixels() % out.width * window.stride - window.padding;
      for (int32_t c = 0; c < out.channels; ++c) {
        const int32_t tap = winner[p * out.channels + c];
        const int32_t pixel = (row + tap / window.kernel_width) * in.width + column + tap % window.kernel_width;
        image[pixel * in.channels + c] += g[p * out.channels + c];
      }
    }
    write_input_gradient(context, 0, sums, gradient.exponent);
  });
}

const char* global_average_pool_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || out.bits == 1 || out.pixels() != 1 || in.channels != out.channels) {
    return "a global average pool must turn each channel into one value";
  }
  return valid_scale(layer.scale_attribute(0)) ? nullptr : "a global average pool has an impossible scale";
}

void global_average_pool_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Scale multiplier = context.layer.scale_attribute(0);
  with_activation_type(in.bits, [&](auto from) {
    with_activation_type(out.bits, [&](auto to) {
      const auto* x = context.input_values<decltype(from)>();
      auto* y = context.output_values<decltype(to)>();
      for (int32_t b = 0; b < context.batch; ++b, x += in.elements()) {
        for (int32_t c = 0; c < in.channels; ++c) {
          int64_t sum = 0;
          for (int32_t p = 0; p < in.pixels(); ++p) sum += x[p * in.channels + c] - in.zero_point;
          *y++ = static_cast<decltype(to)>(saturate(out.zero_point + int64_t{scale(sum, multiplier)}, out.bits));
        }
      }
    });
  });
}

void global_average_pool_backward(const Context& context) {
  const TensorRecord& in = context.input();
  if (context.needs_input_gradient()) mean_backward(context, {in.height, in.width, 1, 0}, in.pixels());
}

}  // namespace everbit
