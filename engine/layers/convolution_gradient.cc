// Gradients of a convolution with ordinary weights, q_b bits. Each is a gemm where both factors are narrow enough, else plain loops.
//
// The input's, for q_b <= 16: 16-bit gradients by tap times 8-bit weights; 2^24 terms of 31 + 7 bits at most. The weights', for q_b <= 16
// and 8-bit activations: 16-bit gradients by channel times 8-bit activations by channel, where places outside the image hold the zero
// point, which leaves through the sum of the gradients; how many terms of 31 + 16 bits there may be, see network.cc. All sums in int64.
#include "convolution.h"

#include <type_traits>

#include "../memory.h"
#include "../parallel.h"
#include "layers.h"
#include "real_weights.h"

namespace everbit {
namespace {

// Whether the weights' gradient is a product of 16-bit gradients and 8-bit activations, the zero point among them.
bool narrow_weight_gradient(const TensorRecord& in, Widths widths) {
  return widths.non_binary <= 16 && in.bits == 8 && in.zero_point >= INT8_MIN && in.zero_point <= INT8_MAX;
}

// Channels that are turned from rows into columns at once, and places: a square of 16-bit numbers fits the first-level cache.
constexpr int32_t kSide = 64;
constexpr int32_t kTileColumns = 32;  // input channels of a tile of the weights' gradient; it has kLeastRows output channels

struct InputGradientScratch {
  int8_t* weights;
  int32_t rows;
  int8_t* flipped;      // inputs x readers: one group's weights by input channel
  int16_t* patches;     // threads x rows x stride, gradients of q_b <= 16
  int32_t* wide;        // threads x rows x stride, gradients of 32 bits
  int64_t* group;       // threads x rows x inputs, where there are groups
  int64_t* input_sums;  // batch x height x width x C_in

  InputGradientScratch(Region& s, const Extent& extent) {
    const ConvolutionShape shape(extent.program, extent.layer);
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t inputs = static_cast<size_t>(shape.inputs);
    const size_t readers = static_cast<size_t>(shape.readers);
    const bool wide_gradients = extent.widths.non_binary == 32;
    weights = s.take<int8_t>(static_cast<size_t>(out.channels) * static_cast<size_t>(shape.patch));
    rows = rows_at_once(shape.readers, wide_gradients ? sizeof(int32_t) : sizeof(int16_t), shape.inputs, extent.batch * in.pixels(),
                        extent.threads);
    const size_t block = static_cast<size_t>(extent.threads) * static_cast<size_t>(rows);
    flipped = s.take<int8_t>(inputs * readers);
    patches = s.take<int16_t>(wide_gradients ? 0 : block * static_cast<size_t>(int_gemm_stride(shape.readers)));
    wide = s.take<int32_t>(wide_gradients ? block * static_cast<size_t>(int_gemm_stride(shape.readers)) : 0);
    group = s.take<int64_t>(shape.groups == 1 ? 0 : block * inputs);
    input_sums = s.take<int64_t>(static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()));
  }
};

struct WeightGradientScratch {
  int16_t* columns;        // C_out x stride: gradients by channel, where narrow
  int64_t* gradient_sums;  // C_out
  int8_t* pixels;          // inputs x places: what one tap reads, where narrow
  int64_t* sums;           // threads x kLeastRows x kTileColumns

  WeightGradientScratch(Region& s, const Extent& extent) {
    const ConvolutionShape shape(extent.program, extent.layer);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t places = static_cast<size_t>(extent.batch) * static_cast<size_t>(out.pixels());
    const size_t channels = static_cast<size_t>(out.channels);
    const bool narrow = narrow_weight_gradient(extent.program.tensor(extent.layer.inputs[0]), extent.widths);
    columns = s.take<int16_t>(narrow ? channels * static_cast<size_t>(int_gemm_stride(static_cast<int32_t>(places))) : 0);
    gradient_sums = s.take<int64_t>(channels);
    pixels = s.take<int8_t>(narrow ? static_cast<size_t>(shape.inputs) * places : 0);
    sums = s.take<int64_t>(static_cast<size_t>(extent.threads) * kLeastRows * kTileColumns);
  }
};

}  // namespace

size_t convolution_gradient_scratch(const Extent& extent) {
  Region input, weights;
  InputGradientScratch(input, extent);
  WeightGradientScratch(weights, extent);
  return input.used > weights.used ? input.used : weights.used;
}

namespace {

// Rows of the gradients of one group's outputs that read the pixels from `first` on, tap by tap.
template <typename G, typename To>
void gather_readers(const Context& context, const ConvolutionShape& shape, const G* g, int32_t group, int32_t first, int32_t rows,
                    int32_t stride, To* patches) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  Place place(first, in);
  for (int32_t r = 0; r < rows; ++r, place.advance(in)) {
    const int32_t image = place.image * out.pixels();
    for_each_reader(shape.window, out, place.row, place.column, [&](int32_t tap, int32_t reader) {
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

// One group's weights by input channel: its gradients' sums are rows of readers.
void flip(const ConvolutionShape& shape, const int8_t* weights, int threads, int8_t* flipped) {
  const int32_t blocks = (shape.inputs + kSide - 1) / kSide;
  parallel_for(threads, blocks, kElementGrain / (kSide * shape.readers), [&](int64_t from, int64_t to, int) {
    const int32_t end = to * kSide < shape.inputs ? static_cast<int32_t>(to) * kSide : shape.inputs;
    for (int32_t tap = 0; tap < shape.window.taps(); ++tap) {
      for (int32_t o = 0; o < shape.outputs; ++o) {
        const int8_t* row = weights + static_cast<int64_t>(o) * shape.patch + tap * shape.inputs;
        int8_t* column = flipped + tap * shape.outputs + o;
        for (int32_t c = static_cast<int32_t>(from) * kSide; c < end; ++c) column[static_cast<int64_t>(c) * shape.readers] = row[c];
      }
    }
  });
}

template <typename G>
void input_gradient(const Context& context, const ConvolutionShape& shape, const InputGradientScratch& room, const G* g) {
  using Patch = std::conditional_t<sizeof(G) == sizeof(int32_t), int32_t, int16_t>;
  const TensorRecord& in = context.input();
  const int32_t stride = int_gemm_stride(shape.readers);
  const int32_t pixels = context.batch * in.pixels();
  const int32_t blocks = (pixels + room.rows - 1) / room.rows;
  const int64_t block_values = int64_t{room.rows} * stride;
  Patch* all_patches;
  if constexpr (sizeof(G) == sizeof(int32_t)) {
    all_patches = room.wide;
  } else {
    all_patches = room.patches;
    for (int64_t i = 0; i < block_values * context.threads; ++i) all_patches[i] = 0;  // once: what lies behind a patch stays 0
  }
  const int8_t* weights = real_forward_weights(context, room.weights, shape.patch * context.output().channels);
  for (int32_t group = 0; group < shape.groups; ++group) {
    flip(shape, weights + static_cast<int64_t>(group) * shape.outputs * shape.patch, context.threads, room.flipped);
    parallel_for(context.threads, blocks, 1, [&](int64_t from, int64_t to, int thread) {
      Patch* patches = all_patches + thread * block_values;
      int64_t* sums = room.group + int64_t{thread} * room.rows * shape.inputs;
      for (int32_t first = static_cast<int32_t>(from) * room.rows; first < to * room.rows && first < pixels; first += room.rows) {
        const int32_t rows = pixels - first < room.rows ? pixels - first : room.rows;
        int64_t* into = room.input_sums + static_cast<size_t>(first) * static_cast<size_t>(in.channels) + group * shape.inputs;
        gather_readers(context, shape, g, group, first, rows, stride, patches);
        int_gemm(patches, rows, stride, shape.readers, room.flipped, shape.inputs, shape.groups == 1 ? into : sums);
        if (shape.groups > 1) spread(sums, rows, shape.inputs, into, in.channels);
      }
    });
  }
}

// Calls f(place, pixel of the mini-batch or kAbsent) for what one tap reads at the places [first, last).
template <typename F>
void for_each_place(const Context& context, const Window& window, int32_t tap, int32_t first, int32_t last, F&& f) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const int32_t down = tap / window.kernel_width - window.top;
  const int32_t right = tap % window.kernel_width - window.left;
  Place at(first, out);
  for (int32_t place = first; place < last; ++place, at.advance(out)) {
    const int32_t y = at.row * window.stride + down;
    const int32_t x = at.column * window.stride + right;
    const bool inside = y >= 0 && y < in.height && x >= 0 && x < in.width;
    f(place, inside ? at.image * in.pixels() + y * in.width + x : kAbsent);
  }
}

// A part of one tap's weights: some output channels by some input channels of a group.
struct Tile {
  int32_t tap;
  int32_t first;         // output channel, of all
  int32_t rows;
  int32_t input;         // channel, of the group
  int32_t first_input;   // of the group, of all
  int32_t columns;
};

// The tiles of the weights, by group, by tap, by output channel.
struct Tiles {
  const ConvolutionShape& shape;
  int32_t across;    // tiles
  int32_t of_a_tap;

  explicit Tiles(const ConvolutionShape& s)
      : shape(s), across((s.inputs + kTileColumns - 1) / kTileColumns), of_a_tap((s.outputs + kLeastRows - 1) / kLeastRows * across) {}

  Tile operator()(int32_t group, int32_t tap, int32_t index) const {
    const int32_t o = index / across * kLeastRows;
    const int32_t c = index % across * kTileColumns;
    return {tap, group * shape.outputs + o, shape.outputs - o < kLeastRows ? shape.outputs - o : kLeastRows,
            c, group * shape.inputs, shape.inputs - c < kTileColumns ? shape.inputs - c : kTileColumns};
  }
};

struct WeightUpdate {
  Parameter& weight;
  Scale step;
  int32_t exponent;
  const ConvolutionShape& shape;

  // sums: rows x columns of the tile.
  void operator()(const Tile& tile, const int64_t* sums) const {
    for (int32_t r = 0; r < tile.rows; ++r, sums += tile.columns) {
      const int32_t to = ((tile.first + r) * shape.window.taps() + tile.tap) * shape.inputs + tile.input;
      update_parameters(weight, to, tile.columns, sums, step, exponent);
    }
  }
};

// Gradients by output channel instead of by place, and their sums times the zero point.
template <typename G>
void turn_gradients(const Context& context, const WeightGradientScratch& room, const G* g, int32_t places) {
  const int32_t channels = context.output().channels;
  const int32_t stride = int_gemm_stride(places);
  parallel_for(context.threads, channels, kElementGrain / places, [&](int64_t first, int64_t last, int) {
    for (int64_t o = first; o < last; ++o) room.gradient_sums[o] = 0;
    for (int32_t p = 0; p < stride; p += kSide) {
      const int32_t end = places - p < kSide ? places : p + kSide;
      for (int64_t o = first; o < last; ++o) {
        int16_t* column = room.columns + o * stride;
        int64_t sum = 0;
        for (int32_t i = p; i < end; ++i) {
          column[i] = g[static_cast<int64_t>(i) * channels + o];
          sum += column[i];
        }
        room.gradient_sums[o] += sum * context.input().zero_point;
      }
    }
    for (int64_t o = first; o < last; ++o) {
      for (int32_t p = places; p < stride; ++p) room.columns[o * stride + p] = 0;
    }
  });
}

// Gradients of q_b <= 16, activations of 8 bits.
template <typename G>
void narrow_weight_update(const Context& context, const ConvolutionShape& shape, const WeightGradientScratch& room, const G* g,
                          const WeightUpdate& update) {
  const TensorRecord& in = context.input();
  const int32_t places = context.batch * context.output().pixels();
  const int32_t stride = int_gemm_stride(places);
  const Tiles tiles(shape);
  const int64_t grain = kElementGrain / (int64_t{kTileColumns} * places);
  const int8_t* x = context.input_values<int8_t>();
  turn_gradients(context, room, g, places);
  for (int32_t group = 0; group < shape.groups; ++group) {
    for (int32_t tap = 0; tap < shape.window.taps(); ++tap) {
      parallel_for(context.threads, places, kElementGrain / shape.inputs, [&](int64_t from, int64_t to, int) {
        const auto gather = [&](int32_t place, int32_t pixel) {
          int8_t* column = room.pixels + place;
          if (pixel == kAbsent) {
            for (int32_t c = 0; c < shape.inputs; ++c) column[static_cast<int64_t>(c) * places] = static_cast<int8_t>(in.zero_point);
            return;
          }
          const int8_t* row = x + static_cast<int64_t>(pixel) * in.channels + group * shape.inputs;
          for (int32_t c = 0; c < shape.inputs; ++c) column[static_cast<int64_t>(c) * places] = row[c];
        };
        for_each_place(context, shape.window, tap, static_cast<int32_t>(from), static_cast<int32_t>(to), gather);
      });
      parallel_for(context.threads, tiles.of_a_tap, grain, [&](int64_t from, int64_t to, int thread) {
        int64_t* sums = room.sums + int64_t{thread} * kLeastRows * kTileColumns;
        for (int64_t index = from; index < to; ++index) {
          const Tile tile = tiles(group, tap, static_cast<int32_t>(index));
          int_gemm(room.columns + static_cast<int64_t>(tile.first) * stride, tile.rows, stride, places,
                   room.pixels + static_cast<int64_t>(tile.input) * places, tile.columns, sums);
          for (int32_t r = 0; r < tile.rows; ++r) {
            for (int32_t c = 0; c < tile.columns; ++c) sums[r * tile.columns + c] -= room.gradient_sums[tile.first + r];
          }
          update(tile, sums);
        }
      });
    }
  }
}

template <typename X, typename G>
void wide_weight_update(const Context& context, const ConvolutionShape& shape, const WeightGradientScratch& room, const G* g,
                        const WeightUpdate& update) {
  const TensorRecord& in = context.input();
  const int32_t channels = context.output().channels;
  const int32_t places = context.batch * context.output().pixels();
  const int32_t taps = shape.window.taps();
  const Tiles tiles(shape);
  const X* x = context.input_values<X>();
  const int64_t count = int64_t{shape.groups} * taps * tiles.of_a_tap;
  parallel_for(context.threads, count, kElementGrain / (int64_t{kTileColumns} * places), [&](int64_t from, int64_t to, int thread) {
    int64_t* sums = room.sums + int64_t{thread} * kLeastRows * kTileColumns;
    for (int64_t index = from; index < to; ++index) {
      const int32_t tap = static_cast<int32_t>(index / tiles.of_a_tap);
      const Tile tile = tiles(tap / taps, tap % taps, static_cast<int32_t>(index % tiles.of_a_tap));
      for (int32_t i = 0; i < tile.rows * tile.columns; ++i) sums[i] = 0;
      for_each_place(context, shape.window, tile.tap, 0, places, [&](int32_t place, int32_t pixel) {
        if (pixel == kAbsent) return;
        const X* values = x + static_cast<int64_t>(pixel) * in.channels + tile.first_input + tile.input;
        for (int32_t r = 0; r < tile.rows; ++r) {
          const int64_t by = g[static_cast<int64_t>(place) * channels + tile.first + r];
          int64_t* row = sums + r * tile.columns;
          for (int32_t c = 0; c < tile.columns; ++c) row[c] += gradient_product(by, values[c], in.zero_point);
        }
      });
      update(tile, sums);
    }
  });
}

}  // namespace

void convolution_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const ConvolutionShape shape(context.program, context.layer);
  const Gradient& gradient = context.output_gradient();
  Parameter& weight = *context.parameter(kRealWeight);
  with_gradient_type(context.widths.non_binary, [&](auto element, auto) {
    using G = decltype(element);
    const G* g = static_cast<const G*>(gradient.values);
    if (context.needs_input_gradient()) {
      Region scratch{static_cast<uint8_t*>(context.scratch)};
      const InputGradientScratch room(scratch, extent_of(context));
      input_gradient(context, shape, room, g);
      write_input_gradient(context, 0, room.input_sums, gradient.exponent + weight.range_exponent - 7);
    }
    if (!weight.trainable) return;
    Region scratch{static_cast<uint8_t*>(context.scratch)};
    const WeightGradientScratch room(scratch, extent_of(context));
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
