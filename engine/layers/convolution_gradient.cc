// Gradients of a convolution with ordinary weights, q_b bits. Each is a gemm where both factors are narrow enough, else plain loops.
//
// The input's, for q_b <= 16: 16-bit gradients by tap times 8-bit weights; 2^24 terms of 31 + 7 bits at most. The weights', for q_b <= 16
// and 8-bit activations: 16-bit gradients by channel times 8-bit activations by channel, where places outside the image hold the zero
// point, which leaves through the sum of the gradients; how many terms of 31 + 16 bits there may be, see network.cc. All sums in int64.
#include "convolution.h"

#include "../memory.h"
#include "layers.h"
#include "real_weights.h"

namespace everbit {
namespace {

// Whether the weights' gradient is a product of 16-bit gradients and 8-bit activations, the zero point among them.
bool narrow_weight_gradient(const TensorRecord& in, Widths widths) {
  return widths.non_binary <= 16 && in.bits == 8 && in.zero_point >= INT8_MIN && in.zero_point <= INT8_MAX;
}

struct BackwardScratch {
  int8_t* weights;
  // The input's gradient.
  int32_t rows;
  int8_t* flipped;      // inputs x readers: one group's weights by input channel
  int16_t* patches;     // rows x stride, gradients of q_b <= 16
  int32_t* wide;        // rows x stride, gradients of 32 bits
  int64_t* group;       // rows x inputs
  int64_t* input_sums;  // batch x height x width x C_in
  // The weights' gradient; takes the place of the input's.
  int16_t* columns;        // C_out x stride: gradients by channel, where narrow
  int64_t* gradient_sums;  // C_out
  int8_t* pixels;          // inputs x places: what one tap reads, where narrow
  int64_t* sums;           // kLeastRows x inputs

  BackwardScratch(Region& s, const Extent& extent) {
    const ConvolutionShape shape(extent.program, extent.layer);
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t places = static_cast<size_t>(extent.batch) * static_cast<size_t>(out.pixels());
    const size_t channels = static_cast<size_t>(out.channels);
    const size_t inputs = static_cast<size_t>(shape.inputs);
    const size_t readers = static_cast<size_t>(shape.readers);
    const bool wide_gradients = extent.widths.non_binary == 32;
    weights = s.take<int8_t>(channels * static_cast<size_t>(shape.patch));
    Region second = s;
    rows = rows_at_once(shape.readers, wide_gradients ? sizeof(int32_t) : sizeof(int16_t), shape.inputs, extent.batch * in.pixels());
    const size_t block = static_cast<size_t>(rows);
    flipped = s.take<int8_t>(inputs * readers);
    patches = s.take<int16_t>(wide_gradients ? 0 : block * static_cast<size_t>(int_gemm_stride(shape.readers)));
    wide = s.take<int32_t>(wide_gradients ? block * static_cast<size_t>(int_gemm_stride(shape.readers)) : 0);
    group = s.take<int64_t>(block * inputs);
    input_sums = s.take<int64_t>(static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()));

    const bool narrow = narrow_weight_gradient(in, extent.widths);
    columns = second.take<int16_t>(narrow ? channels * static_cast<size_t>(int_gemm_stride(static_cast<int32_t>(places))) : 0);
    gradient_sums = second.take<int64_t>(channels);
    pixels = second.take<int8_t>(narrow ? inputs * places : 0);
    sums = second.take<int64_t>(kLeastRows * inputs);
    s.used = s.used > second.used ? s.used : second.used;
  }
};

}  // namespace

size_t convolution_gradient_scratch(const Extent& extent) {
  Region region;
  BackwardScratch(region, extent);
  return region.used;
}

namespace {

// Rows of the gradients of one group's outputs that read the pixels from `first` on, tap by tap.
template <typename G, typename To>
void gather_readers(const Context& context, const ConvolutionShape& shape, const G* g, int32_t group, int32_t first, int32_t rows,
                    int32_t stride, To* patches) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t image = (first + r) / in.pixels() * out.pixels();
    const int32_t place = (first + r) % in.pixels();
    for_each_reader(shape.window, out, place / in.width, place % in.width, [&](int32_t tap, int32_t reader) {
      To* to = patches + r * stride + tap * shape.outputs;
      if (reader == kAbsent) {
        for (int32_t o = 0; o < shape.outputs; ++o) to[o] = 0;
        return;
      }
      const G* from = g + static_cast<size_t>(image + reader) * static_cast<size_t>(out.channels) + group * shape.outputs;
      for (int32_t o = 0; o < shape.outputs; ++o) to[o] = static_cast<To>(from[o]);
    });
  }
}

template <typename G>
void input_gradient(const Context& context, const ConvolutionShape& shape, const BackwardScratch& room, const int8_t* weights, const G* g) {
  const TensorRecord& in = context.input();
  const int32_t taps = shape.window.taps();
  const int32_t stride = int_gemm_stride(shape.readers);
  const int32_t pixels = context.batch * in.pixels();
  if constexpr (sizeof(G) < sizeof(int32_t)) {
    for (int32_t i = 0; i < room.rows * stride; ++i) room.patches[i] = 0;  // once: what lies behind a patch stays 0
  }
  for (int32_t group = 0; group < shape.groups; ++group) {
    const int8_t* from = weights + static_cast<int64_t>(group) * shape.outputs * shape.patch;
    for (int32_t o = 0; o < shape.outputs; ++o) {
      for (int32_t tap = 0; tap < taps; ++tap, from += shape.inputs) {
        int8_t* to = room.flipped + tap * shape.outputs + o;
        for (int32_t c = 0; c < shape.inputs; ++c) to[static_cast<int64_t>(c) * shape.readers] = from[c];
      }
    }
    for (int32_t first = 0; first < pixels; first += room.rows) {
      const int32_t rows = pixels - first < room.rows ? pixels - first : room.rows;
      if constexpr (sizeof(G) == sizeof(int32_t)) {
        gather_readers(context, shape, g, group, first, rows, stride, room.wide);
        int_gemm(room.wide, rows, stride, shape.readers, room.flipped, shape.inputs, room.group);
      } else {
        gather_readers(context, shape, g, group, first, rows, stride, room.patches);
        int_gemm(room.patches, rows, stride, shape.readers, room.flipped, shape.inputs, room.group);
      }
      spread(room.group, rows, shape.inputs,
             room.input_sums + static_cast<size_t>(first) * static_cast<size_t>(in.channels) + group * shape.inputs, in.channels);
    }
  }
}

// Calls f(place of the mini-batch, pixel of the mini-batch or kAbsent) for what one tap reads at every output.
template <typename F>
void for_each_place(const Context& context, const Window& window, int32_t tap, F&& f) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  int32_t place = 0;
  for (int32_t b = 0; b < context.batch; ++b) {
    for (int32_t row = 0; row < out.height; ++row) {
      const int32_t y = row * window.stride + tap / window.kernel_width - window.top;
      for (int32_t column = 0; column < out.width; ++column, ++place) {
        const int32_t x = column * window.stride + tap % window.kernel_width - window.left;
        const bool inside = y >= 0 && y < in.height && x >= 0 && x < in.width;
        f(place, inside ? b * in.pixels() + y * in.width + x : kAbsent);
      }
    }
  }
}

struct WeightUpdate {
  Parameter& weight;
  Scale step;
  int32_t exponent;
  const ConvolutionShape& shape;

  // Rows of one tap's sums for the output channels from `first` on.
  void operator()(int32_t first, int32_t rows, int32_t tap, const int64_t* sums) const {
    for (int32_t r = 0; r < rows; ++r) {
      const int32_t to = ((first + r) * shape.window.taps() + tap) * shape.inputs;
      for (int32_t c = 0; c < shape.inputs; ++c) update_parameter(weight, to + c, *sums++, step, exponent);
    }
  }
};

// Gradients of q_b <= 16, activations of 8 bits.
template <typename G>
void narrow_weight_update(const Context& context, const ConvolutionShape& shape, const BackwardScratch& room, const G* g,
                          const WeightUpdate& update) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const int32_t places = context.batch * out.pixels();
  const int32_t stride = int_gemm_stride(places);
  for (int32_t o = 0; o < out.channels; ++o) {
    int16_t* column = room.columns + static_cast<int64_t>(o) * stride;
    int64_t sum = 0;
    for (int32_t p = 0; p < places; ++p) {
      column[p] = g[static_cast<int64_t>(p) * out.channels + o];
      sum += column[p];
    }
    for (int32_t p = places; p < stride; ++p) column[p] = 0;
    room.gradient_sums[o] = sum * in.zero_point;
  }
  const int8_t* x = context.input_values<int8_t>();
  for (int32_t group = 0; group < shape.groups; ++group) {
    for (int32_t tap = 0; tap < shape.window.taps(); ++tap) {
      for_each_place(context, shape.window, tap, [&](int32_t place, int32_t pixel) {
        int8_t* to = room.pixels + place;
        if (pixel == kAbsent) {
          for (int32_t c = 0; c < shape.inputs; ++c) to[static_cast<int64_t>(c) * places] = static_cast<int8_t>(in.zero_point);
          return;
        }
        const int8_t* from = x + static_cast<int64_t>(pixel) * in.channels + group * shape.inputs;
        for (int32_t c = 0; c < shape.inputs; ++c) to[static_cast<int64_t>(c) * places] = from[c];
      });
      for (int32_t o = 0; o < shape.outputs; o += kLeastRows) {
        const int32_t rows = shape.outputs - o < kLeastRows ? shape.outputs - o : kLeastRows;
        const int32_t first = group * shape.outputs + o;
        int_gemm(room.columns + static_cast<int64_t>(first) * stride, rows, stride, places, room.pixels, shape.inputs, room.sums);
        for (int32_t r = 0; r < rows; ++r) {
          for (int32_t c = 0; c < shape.inputs; ++c) room.sums[r * shape.inputs + c] -= room.gradient_sums[first + r];
        }
        update(first, rows, tap, room.sums);
      }
    }
  }
}

template <typename X, typename G>
void wide_weight_update(const Context& context, const ConvolutionShape& shape, const BackwardScratch& room, const G* g,
                        const WeightUpdate& update) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const X* x = context.input_values<X>();
  for (int32_t group = 0; group < shape.groups; ++group) {
    for (int32_t tap = 0; tap < shape.window.taps(); ++tap) {
      for (int32_t o = 0; o < shape.outputs; o += kLeastRows) {
        const int32_t rows = shape.outputs - o < kLeastRows ? shape.outputs - o : kLeastRows;
        const int32_t first = group * shape.outputs + o;
        for (int32_t i = 0; i < rows * shape.inputs; ++i) room.sums[i] = 0;
        for_each_place(context, shape.window, tap, [&](int32_t place, int32_t pixel) {
          if (pixel == kAbsent) return;
          const X* from = x + static_cast<int64_t>(pixel) * in.channels + group * shape.inputs;
          for (int32_t r = 0; r < rows; ++r) {
            const int64_t by = g[static_cast<int64_t>(place) * out.channels + first + r];
            int64_t* to = room.sums + r * shape.inputs;
            for (int32_t c = 0; c < shape.inputs; ++c) to[c] += gradient_product(by, from[c], in.zero_point);
          }
        });
        update(first, rows, tap, room.sums);
      }
    }
  }
}

}  // namespace

void convolution_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const ConvolutionShape shape(context.program, context.layer);
  const Gradient& gradient = context.output_gradient();
  Parameter& weight = *context.parameter(kRealWeight);
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  const BackwardScratch room(scratch, extent_of(context));

  with_gradient_type(context.widths.non_binary, [&](auto element, auto) {
    using G = decltype(element);
    const G* g = static_cast<const G*>(gradient.values);
    if (context.needs_input_gradient()) {
      const int8_t* weights = real_forward_weights(context, room.weights, shape.patch * context.output().channels);
      input_gradient(context, shape, room, weights, g);
      write_input_gradient(context, 0, room.input_sums, gradient.exponent + weight.range_exponent - 7);
    }
    if (!weight.trainable) return;
    const WeightUpdate update{weight, real_step(context, weight), gradient.exponent + product_shift(in.bits), shape};
    if constexpr (sizeof(G) < sizeof(int32_t)) {
      if (narrow_weight_gradient(in, context.widths)) return narrow_weight_update(context, shape, room, g, update);
    }
    with_activation_type(in.bits, [&](auto type) {
      wide_weight_update<decltype(type)>(context, shape, room, g, update);
    });
  });
}

}  // namespace everbit
