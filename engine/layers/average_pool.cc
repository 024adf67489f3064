// Average and global average pools. Gradients of windows that do not overlap are one product, of a 15-bit mantissa of 1 / count: below
// 2^30 for q_b <= 16. Where windows overlap they sum in int64: 31 + 15 + 16 bits for the most windows over a pixel, 255^2, and 31 + 23 +
// 8 bits where places outside the image do not count.
#include <type_traits>

#include "../parallel.h"
#include "layers.h"
#include "same_numbers.h"
#include "window.h"

namespace everbit {
namespace {

enum Attribute { kKernel, kStride, kPadding, kSkew, kInsideOnly };
constexpr int32_t kMaxInsideKernel = 15;  // 225 windows over a pixel, 225 places in a window
constexpr int kShareFraction = 23;

// Images older than strides hold 0: windows side by side.
Window window_of(const LayerRecord& layer) {
  const int32_t* a = layer.attributes;
  return {a[kKernel], a[kKernel], a[kStride] == 0 ? a[kKernel] : a[kStride], a[kPadding], left_padding(a[kPadding], a[kSkew])};
}

// Whether gradients sum in 64 bits: where windows overlap, and where a share has 23 bits because places outside do not count.
bool wide_sums(const LayerRecord& layer, int q_b) {
  const Window window = window_of(layer);
  return q_b == 32 || window.stride < window.kernel_height || layer.attributes[kInsideOnly] != 0;
}

// Adds each gradient times share(places of its window inside the image) to every place below its window, and writes the result.
template <typename Sum, typename Share>
void spread_gradient(const Context& context, const Window& window, int32_t exponent, Share&& share) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  Sum* sums = static_cast<Sum*>(context.scratch);
  with_gradient_type(context.widths.non_binary, [&](auto element, auto) {
    parallel_for(context.threads, context.batch, kElementGrain / in.elements(), [&](int64_t first, int64_t last, int) {
      const auto* g = static_cast<const decltype(element)*>(gradient.values) + first * out.elements();
      for (int64_t i = first * in.elements(); i < last * in.elements(); ++i) sums[i] = 0;
      Place place(static_cast<int32_t>(first) * out.pixels(), out);
      for (int64_t p = first * out.pixels(); p < last * out.pixels(); ++p, g += in.channels, place.advance(out)) {
        Sum* image = sums + static_cast<int64_t>(place.image) * in.elements();
        int32_t inside = 0;
        for_each_tap(window, in, place.row, place.column, [&](int32_t, int32_t pixel) { inside += pixel != kAbsent; });
        const Sum by = share(inside);
        for_each_tap(window, in, place.row, place.column, [&](int32_t, int32_t pixel) {
          if (pixel == kAbsent) return;
          for (int32_t c = 0; c < in.channels; ++c) image[pixel * in.channels + c] += static_cast<Sum>(g[c]) * by;
        });
      }
    });
  });
  write_input_gradient(context, 0, sums, gradient.exponent + exponent);
}

// Means over all `count` places of a window.
void whole_mean_backward(const Context& context, const Window& window, int32_t count, bool wide) {
  const Scale share = reciprocal(static_cast<uint32_t>(count));
  const int32_t mantissa = share.mantissa >> 16;
  if (wide) {
    spread_gradient<int64_t>(context, window, share.exponent - 15, [&](int32_t) { return int64_t{mantissa}; });
  } else {
    spread_gradient<int32_t>(context, window, share.exponent - 15, [&](int32_t) { return mantissa; });
  }
}

}  // namespace

size_t average_pool_scratch(const Extent& extent) {
  const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
  const size_t sum = wide_sums(extent.layer, extent.widths.non_binary) ? sizeof(int64_t) : sizeof(int32_t);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()) * sum;
}

const char* average_pool_check(const Program& program, const LayerRecord& layer) {
  if (const char* problem = same_numbers_check(program, layer)) return problem;
  const Window window = window_of(layer);
  if (const char* problem = window_check(window, program.tensor(layer.inputs[0]), program.tensor(layer.output))) return problem;
  const int32_t inside_only = layer.attributes[kInsideOnly];
  if (inside_only != 0 && (inside_only != 1 || window.kernel_height > kMaxInsideKernel)) {
    return "an average pool counts its places in an unknown way, or over windows beyond 15 x 15";
  }
  return nullptr;
}

namespace {

// 255^2 values of 16 bits fit int32.
template <typename T>
using PoolSum = std::conditional_t<sizeof(T) == sizeof(int32_t), int64_t, int32_t>;

// y[c] = the mean over rows x columns pixels from `corner` on, of `count` places that are not there or have the zero point's value beside
// them. Channels in blocks, so that the innermost loops are over neighbors.
template <typename T>
void mean_of(const T* corner, int32_t rows, int32_t columns, int32_t row_stride, int32_t count, const TensorRecord& t, T* y) {
  constexpr int32_t kBlock = 64;
  const int halvings = bit_length(count) - 1;
  const bool divides = count == 1 << halvings;  // a power of two needs no division
  const PoolSum<T> offset = static_cast<PoolSum<T>>(int64_t{rows} * columns * t.zero_point);
  for (int32_t first = 0; first < t.channels; first += kBlock) {
    const int32_t block = t.channels - first < kBlock ? t.channels - first : kBlock;
    PoolSum<T> sums[kBlock] = {};
    for (int32_t i = 0; i < rows; ++i) {
      for (int32_t j = 0; j < columns; ++j) {
        const T* from = corner + static_cast<int64_t>(i) * row_stride + static_cast<int64_t>(j) * t.channels + first;
        for (int32_t c = 0; c < block; ++c) sums[c] += from[c];
      }
    }
    if (divides && sizeof(T) < sizeof(int32_t)) {
      const int32_t half = (1 << halvings) >> 1;
      const int32_t top = (int32_t{1} << (t.bits - 1)) - 1;
      for (int32_t c = 0; c < block; ++c) {
        const int32_t centered = static_cast<int32_t>(sums[c] - offset);
        const int32_t q = t.zero_point + ((centered + half - ((centered < 0) & (halvings > 0))) >> halvings);
        y[first + c] = static_cast<T>(q > top ? top : q < -top - 1 ? -top - 1 : q);
      }
    } else {
      for (int32_t c = 0; c < block; ++c) {
        const int64_t centered = int64_t{sums[c]} - offset;
        const int64_t mean = divides ? rounding_shift(centered, halvings) : rounding_divide(centered, count);
        y[first + c] = static_cast<T>(saturate(t.zero_point + mean, t.bits));
      }
    }
  }
}

}  // namespace

void average_pool_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = window_of(context.layer);
  const bool inside_only = context.layer.attributes[kInsideOnly] != 0;
  with_activation_type(out.bits, [&](auto type) {
    using T = decltype(type);
    const T* x = context.input_values<T>();
    T* y = context.output_values<T>();
    parallel_for(context.threads, context.batch * out.pixels(), kElementGrain / out.channels, [&](int64_t first, int64_t last, int) {
      Place place(static_cast<int32_t>(first), out);
      for (int64_t p = first; p < last; ++p, place.advance(out)) {
        const int32_t row = place.row * window.stride - window.top;
        const int32_t column = place.column * window.stride - window.left;
        const int32_t top = row < 0 ? 0 : row;
        const int32_t left = column < 0 ? 0 : column;
        const int32_t bottom = row + window.kernel_height < in.height ? row + window.kernel_height : in.height;
        const int32_t right = column + window.kernel_width < in.width ? column + window.kernel_width : in.width;
        const int32_t count = inside_only ? (bottom - top) * (right - left) : window.taps();
        const T* corner = x + static_cast<int64_t>(place.image) * in.elements() + (top * in.width + left) * in.channels;
        mean_of(corner, bottom - top, right - left, in.width * in.channels, count, out, y + p * out.channels);
      }
    });
  });
}

void average_pool_backward(const Context& context) {
  if (!context.needs_input_gradient()) return;
  const Window window = window_of(context.layer);
  if (context.layer.attributes[kInsideOnly] == 0) {
    return whole_mean_backward(context, window, window.taps(), wide_sums(context.layer, context.widths.non_binary));
  }
  const auto share = [](int32_t inside) { return rounding_divide(int64_t{1} << kShareFraction, inside); };
  spread_gradient<int64_t>(context, window, -kShareFraction, share);
}

const char* global_average_pool_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || out.bits == 1 || out.pixels() != 1 || in.channels != out.channels) {
    return "a global average pool must turn each channel into one value";
  }
  return valid_scale(layer.scale_attribute(0)) ? nullptr : "a global average pool has an impossible scale";
}

// One accumulator for every element of the input.
size_t global_average_pool_scratch(const Extent& extent) {
  const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()) * accumulator_bytes(extent.widths.non_binary);
}

void global_average_pool_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Scale multiplier = context.layer.scale_attribute(0);
  with_activation_type(in.bits, [&](auto from) {
    with_activation_type(out.bits, [&](auto to) {
      const auto* x = context.input_values<decltype(from)>();
      auto* y = context.output_values<decltype(to)>();
      parallel_for(context.threads, context.batch, kElementGrain / in.elements(), [&](int64_t first, int64_t last, int) {
        for (int64_t b = first; b < last; ++b) {
          const auto* image = x + b * in.elements();
          for (int32_t c = 0; c < in.channels; ++c) {
            int64_t sum = 0;
            for (int32_t p = 0; p < in.pixels(); ++p) sum += int64_t{image[p * in.channels + c]} - in.zero_point;
            const int64_t q = out.zero_point + int64_t{scale(sum, multiplier)};
            y[b * out.channels + c] = static_cast<decltype(to)>(saturate(q, out.bits));
          }
        }
      });
    });
  });
}

void global_average_pool_backward(const Context& context) {
  const TensorRecord& in = context.input();
  if (!context.needs_input_gradient()) return;
  whole_mean_backward(context, {in.height, in.width, 1, 0, 0}, in.pixels(), context.widths.non_binary == 32);
}

}  // namespace everbit
