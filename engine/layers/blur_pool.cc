// Blur pool: the binomial filter [1 2 1] x [1 2 1] / 16 over every channel, with a stride; its gradient is the transposed filter.
// Sums of 9 terms of 32 + 3 bits, and of at most 9 gradients times 4.
#include <type_traits>

#include "../kernels/elementwise/elementwise.h"
#include "../memory.h"
#include "../parallel.h"
#include "depthwise_shape.h"
#include "layers.h"
#include "same_numbers.h"

namespace everbit {
namespace {

enum Attribute { kStride, kPadding, kSkew };
constexpr int8_t kFilter[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
constexpr int kFilterShift = 4;

Window window_of(const LayerRecord& layer) {
  const int32_t* a = layer.attributes;
  return {3, 3, a[kStride], a[kPadding], left_padding(a[kPadding], a[kSkew])};
}

struct Scratch {
  int8_t* filter;  // 9 x C
  int64_t* sums;   // threads x one output row (as the kernel gives them), or the gradients of all inputs

  Scratch(Region& s, const Extent& extent) {
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    filter = s.take<int8_t>(9 * static_cast<size_t>(in.channels));
    const size_t places = static_cast<size_t>(extent.threads) * static_cast<size_t>(out.width);
    const size_t rows = saturating_product(places, static_cast<size_t>(out.channels));
    const size_t all = extent.program.learnable(extent.layer) ? static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()) : 0;
    sums = s.take<int64_t>(rows > all ? rows : all);
  }
};

Scratch scratch_of(const Context& context) {
  Region region{static_cast<uint8_t*>(context.scratch)};
  const Scratch room(region, extent_of(context));
  const int32_t channels = context.input().channels;
  for (int32_t tap = 0; tap < 9; ++tap) {
    for (int32_t c = 0; c < channels; ++c) room.filter[tap * channels + c] = kFilter[tap];
  }
  return room;
}

}  // namespace

const char* blur_pool_check(const Program& program, const LayerRecord& layer) {
  if (const char* problem = same_numbers_check(program, layer)) return problem;
  return window_check(window_of(layer), program.tensor(layer.inputs[0]), program.tensor(layer.output));
}

size_t blur_pool_scratch(const Extent& extent) {
  Region region;
  Scratch(region, extent);
  return region.used;
}

void blur_pool_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Scratch room = scratch_of(context);
  const int32_t values = out.width * out.channels;
  const DepthwiseShape shape = depthwise_shape(window_of(context.layer), in, out);
  with_activation_type(out.bits, [&](auto type) {
    using T = decltype(type);
    using Sum = std::conditional_t<sizeof(T) == sizeof(int32_t), int64_t, int32_t>;
    parallel_for(context.threads, context.batch * out.height, kElementGrain / values, [&](int64_t first, int64_t last, int thread) {
      Sum* sums = reinterpret_cast<Sum*>(room.sums + int64_t{thread} * values);
      for (int64_t row = first; row < last; ++row) {
        const T* image = context.input_values<T>() + row / out.height * in.elements();
        depthwise_row({shape, image, in.bits, in.zero_point, room.filter, static_cast<int32_t>(row % out.height), sums});
        T* y = context.output_values<T>() + row * values;
        if constexpr (sizeof(T) == sizeof(int32_t)) {
          for (int32_t i = 0; i < values; ++i) {
            y[i] = static_cast<T>(saturate(out.zero_point + rounding_shift(sums[i], kFilterShift), out.bits));
          }
        } else {
          shift_loop({sums, y, out.bits, values, kFilterShift, out.zero_point});
        }
      }
    });
  });
}

void blur_pool_backward(const Context& context) {
  if (!context.needs_input_gradient()) return;
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  const int q_b = context.widths.non_binary;
  const Scratch room = scratch_of(context);
  const DepthwiseShape shape = depthwise_shape(window_of(context.layer), in, out);
  parallel_for(context.threads, context.batch, kElementGrain / in.elements(), [&](int64_t first, int64_t last, int) {
    for (int64_t b = first; b < last; ++b) {
      depthwise_input_gradient({shape, element_at(gradient.values, b * out.elements(), q_b), q_b, room.filter,
                                room.sums + b * in.elements()});
    }
  });
  write_input_gradient(context, 0, room.sums, gradient.exponent - kFilterShift);
}

}  // namespace everbit
