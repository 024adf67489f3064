// Max and global max pools. A gradient goes to the place that won; at most one gradient a tap meets there, 255^2 of them, below 2^31.
#include <cstring>

#include "../kernels/elementwise/elementwise.h"
#include "../parallel.h"
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

// The largest value of every channel at one output place, the first in row-major order; `winner`: its tap, unless nullptr. Windows hold
// at least one place of the image.
template <typename T>
void max_of(const Window& window, const TensorRecord& in, const T* image, int32_t row, int32_t column, T* __restrict y,
            uint16_t* __restrict winner) {
  const int32_t channels = in.channels;
  bool some = false;
  for_each_tap(window, in, row, column, [&](int32_t tap, int32_t pixel) {
    if (pixel == kAbsent) return;
    const T* __restrict x = image + static_cast<int64_t>(pixel) * channels;
    const uint16_t mine = static_cast<uint16_t>(tap);
    if (!some) {
      for (int32_t c = 0; c < channels; ++c) y[c] = x[c];
      for (int32_t c = 0; winner != nullptr && c < channels; ++c) winner[c] = mine;
    } else if (winner == nullptr) {
      for (int32_t c = 0; c < channels; ++c) y[c] = x[c] > y[c] ? x[c] : y[c];
    } else {
      for (int32_t c = 0; c < channels; ++c) {
        winner[c] = x[c] > y[c] ? mine : winner[c];
        y[c] = x[c] > y[c] ? x[c] : y[c];
      }
    }
    some = true;
  });
}

// Without winners, row by row: the outputs of a row whose window is whole take the maximum over a run of pixels at stride 1, tap by tap.
void forward_rows(const Context& context, const Window& window) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const int64_t grain = kElementGrain / (int64_t{window.taps()} * out.channels * out.width);
  with_activation_type(out.bits, [&](auto type) {
    using T = decltype(type);
    parallel_for(context.threads, context.batch * out.height, grain, [&](int64_t first, int64_t last, int) {
      for (int64_t row = first; row < last; ++row) {
        const T* image = context.input_values<T>() + row / out.height * in.elements();
        T* y = context.output_values<T>() + row * out.width * out.channels;
        for_each_tap(window, in, static_cast<int32_t>(row % out.height), 0, [&](int32_t tap, int32_t pixel) {
          const T* x = image + static_cast<int64_t>(pixel) * in.channels;
          const int32_t count = out.width * out.channels;
          if (tap == 0) {
            std::memcpy(y, x, static_cast<size_t>(count) * sizeof(T));
          } else {
            maximum_loop({x, y, out.bits, count});
          }
        });
      }
    });
  });
}

// Whether every window is whole and windows follow one another pixel by pixel.
bool has_runs(const Window& window, const TensorRecord& in, const TensorRecord& out) {
  return window.stride == 1 && window.top == 0 && window.left == 0 && out.height + window.kernel_height - 1 <= in.height &&
         out.width + window.kernel_width - 1 <= in.width;
}

void forward(const Context& context, const Window& window) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  if (!context.training && has_runs(window, in, out)) return forward_rows(context, window);
  uint16_t* winner = context.training ? static_cast<uint16_t*>(context.saved) : nullptr;
  const int64_t grain = kElementGrain / (int64_t{window.taps()} * out.channels);
  with_activation_type(out.bits, [&](auto type) {
    using T = decltype(type);
    parallel_for(context.threads, context.batch * out.pixels(), grain, [&](int64_t first, int64_t last, int) {
      Place place(static_cast<int32_t>(first), out);
      for (int64_t p = first; p < last; ++p, place.advance(out)) {
        const T* image = context.input_values<T>() + static_cast<int64_t>(place.image) * in.elements();
        max_of(window, in, image, place.row, place.column, context.output_values<T>() + p * out.channels,
               winner == nullptr ? nullptr : winner + p * out.channels);
      }
    });
  });
}

void backward(const Context& context, const Window& window) {
  if (!context.needs_input_gradient()) return;
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  const uint16_t* winners = static_cast<const uint16_t*>(context.saved);
  const int32_t row_step = in.width - window.kernel_width;
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    using Sum = decltype(accumulator);
    Sum* sums = static_cast<Sum*>(context.scratch);
    parallel_for(context.threads, context.batch, kElementGrain / in.elements(), [&](int64_t from, int64_t to, int) {
      for (int64_t b = from; b < to; ++b) {
        Sum* image = sums + b * in.elements();
        for (int32_t i = 0; i < in.elements(); ++i) image[i] = 0;
        const auto* g = static_cast<const decltype(element)*>(gradient.values) + b * out.elements();
        const uint16_t* winner = winners + b * out.elements();
        for (int32_t row = -window.top, i = 0; i < out.height; ++i, row += window.stride) {
          for (int32_t column = -window.left, j = 0; j < out.width; ++j, column += window.stride) {
            for (int32_t c = 0; c < out.channels; ++c, ++g, ++winner) {
              const int32_t pixel = row * in.width + column + *winner + *winner / window.kernel_width * row_step;
              image[pixel * in.channels + c] += *g;
            }
          }
        }
      }
    });
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
