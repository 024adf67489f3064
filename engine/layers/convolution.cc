// Convolution with ordinary weights, in groups or not: patches times 8-bit weights, each block of places one gemm for every group.
// The gradients stand in convolution_gradient.cc.
//
// The gemm takes the stored integers; the zero point leaves through the sum of the weights, and places outside the image hold the zero
// point, so that they add nothing. Sums in int64: 2^24 terms of 32 + 7 bits. Where the weights at hand let no sum leave 32 bits and the
// instruction set has a kernel for that, they take that way (packed_gemm), to the same integers.
#include "convolution.h"

#include <cstring>
#include <type_traits>

#include "../kernels/packed_gemm/packed_gemm.h"
#include "../memory.h"
#include "../parallel.h"
#include "layers.h"
#include "real_weights.h"

namespace everbit {
namespace {

constexpr int64_t kMaxTerms = int64_t{1} << 24;  // of one output's sum, and of one input's gradient

// Bytes of one value of a patch.
size_t patch_bytes(int32_t bits) { return bits == 32 ? sizeof(int32_t) : sizeof(int16_t); }

constexpr int32_t kChunk = 16;  // bytes copied at once

// Values from one patch to the next: what chunks write behind a patch is no other's.
int32_t patch_stride(const ConvolutionShape& shape) { return int_gemm_stride(shape.patch) + kChunk; }

struct ForwardScratch {
  int32_t rows;
  int8_t* weights;
  RealOffsets offsets;
  uint8_t* patches;  // threads x rows x stride values of patch_bytes()
  int64_t* group;    // threads x rows x outputs, where there are groups
  int64_t* sums;     // threads x rows x C_out
  uint32_t* packed = nullptr;  // weights and sums of packed_gemm()
  int32_t* short_sums = nullptr;

  ForwardScratch(Region& s, const Extent& extent)
      : weights(s.take<int8_t>(extent.layer.parameters[kRealWeight] == kAbsent ? 0 : weight_count(extent))),
        offsets(s, extent.program.tensor(extent.layer.output).channels) {
    const ConvolutionShape shape(extent.program, extent.layer);
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t channels = static_cast<size_t>(out.channels);
    const size_t bytes = patch_bytes(in.bits);
    rows = rows_at_once(shape.patch, bytes, out.channels, extent.batch * out.pixels(), extent.threads);
    const size_t at_once = static_cast<size_t>(extent.threads) * static_cast<size_t>(rows);
    patches = s.take<uint8_t>(at_once * static_cast<size_t>(patch_stride(shape)) * bytes);
    // One or the other way is taken: they share the memory, which must be the same whatever the processor has.
    Region by_packing = s;
    group = s.take<int64_t>(shape.groups == 1 ? 0 : at_once * static_cast<size_t>(shape.outputs));
    sums = s.take<int64_t>(at_once * channels);
    if (shape.groups > 1 || in.bits == 32) return;
    packed = by_packing.take<uint32_t>(packed_words(shape.patch, out.channels, in.bits));
    short_sums = by_packing.take<int32_t>(at_once * channels);
    if (by_packing.used > s.used) s.used = by_packing.used;
  }

  static size_t weight_count(const Extent& extent) {
    const ConvolutionShape shape(extent.program, extent.layer);
    return static_cast<size_t>(extent.program.tensor(extent.layer.output).channels) * static_cast<size_t>(shape.patch);
  }
};

// Rows of patches of one group at the places from `first` on.
template <typename X, typename Patch>
void gather_patches(const Context& context, const ConvolutionShape& shape, int32_t g, int32_t first, int32_t rows, int32_t stride,
                    Patch* patches) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const X* x = context.input_values<X>() + g * shape.inputs;
  Place place(first, out);
  for (int32_t r = 0; r < rows; ++r, place.advance(out)) {
    const X* image = x + static_cast<size_t>(place.image) * static_cast<size_t>(in.elements());
    for_each_tap(shape.window, in, place.row, place.column, [&](int32_t tap, int32_t pixel) {
      Patch* to = patches + r * stride + tap * shape.inputs;
      if (pixel == kAbsent) {
        for (int32_t c = 0; c < shape.inputs; ++c) to[c] = static_cast<Patch>(in.zero_point);
      } else {
        const X* from = image + pixel * in.channels;
        for (int32_t c = 0; c < shape.inputs; ++c) to[c] = from[c];
      }
    });
  }
}

// Copies `bytes` in whole chunks where `room` bytes may be read; what is written behind is overwritten later, or never read.
inline void copy_chunks(const uint8_t* from, size_t bytes, size_t room, uint8_t* to) {
  if (room < bytes + kChunk) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i += kChunk) std::memcpy(to + i, from + i, kChunk);
}

// The same patches in the type of the input, for packed_gemm(): what lies side by side under the window is copied at once.
template <typename X>
void gather_rows(const Context& context, const ConvolutionShape& shape, int32_t first, int32_t rows, X* patches) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window& window = shape.window;
  const int32_t across = window.kernel_width * in.channels;
  const int32_t stride = patch_stride(shape);
  const X* x = context.input_values<X>();
  const X* end = x + static_cast<size_t>(context.batch) * static_cast<size_t>(in.elements());
  Place place(first, out);
  for (int32_t r = 0; r < rows; ++r, place.advance(out)) {
    const X* image = x + static_cast<size_t>(place.image) * static_cast<size_t>(in.elements());
    const int32_t left = place.column * window.stride - window.left;
    X* to = patches + int64_t{r} * stride;
    for (int32_t i = 0; i < window.kernel_height; ++i, to += across) {
      const int32_t y = place.row * window.stride + i - window.top;
      if (y >= 0 && y < in.height && left >= 0 && left + window.kernel_width <= in.width) {
        const X* from = image + (y * in.width + left) * in.channels;
        copy_chunks(reinterpret_cast<const uint8_t*>(from), static_cast<size_t>(across) * sizeof(X),
                    static_cast<size_t>(end - from) * sizeof(X), reinterpret_cast<uint8_t*>(to));
        continue;
      }
      for (int32_t j = 0; j < window.kernel_width; ++j) {
        const bool inside = y >= 0 && y < in.height && left + j >= 0 && left + j < in.width;
        for (int32_t c = 0; c < in.channels; ++c) {
          to[j * in.channels + c] = inside ? image[(y * in.width + left + j) * in.channels + c] : static_cast<X>(in.zero_point);
        }
      }
    }
  }
}

// Whether the input itself is a matrix of patches; values: of a row that are read together.
bool is_matrix(const ConvolutionShape& shape, const TensorRecord& in, int32_t values) {
  return shape.window.taps() == 1 && shape.window.stride == 1 && shape.groups == 1 && in.channels % values == 0;
}

template <typename X>
void forward_packed(const Context& context, const ConvolutionShape& shape, const int8_t* weights, const ForwardScratch& room) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  pack_weights(weights, shape.patch, out.channels, in.bits, room.packed);
  const bool in_place = is_matrix(shape, in, packed_step(in.bits));
  const int32_t places = context.batch * out.pixels();
  const int32_t stride = in_place ? in.channels : patch_stride(shape);
  parallel_for(context.threads, (places + room.rows - 1) / room.rows, 1, [&](int64_t from, int64_t to, int thread) {
    X* gathered = reinterpret_cast<X*>(room.patches) + int64_t{thread} * room.rows * patch_stride(shape);
    int32_t* sums = room.short_sums + int64_t{thread} * room.rows * out.channels;
    for (int32_t first = static_cast<int32_t>(from) * room.rows; first < to * room.rows && first < places; first += room.rows) {
      const int32_t rows = places - first < room.rows ? places - first : room.rows;
      const X* patches = context.input_values<X>() + int64_t{first} * in.channels;
      if (!in_place) {
        gather_rows(context, shape, first, rows, gathered);
        patches = gathered;
      }
      packed_gemm({patches, in.bits, rows, stride, shape.patch, room.packed, out.channels, sums});
      real_requantize(context, sums, room.offsets, first, rows);
    }
  });
}

}  // namespace

const char* convolution_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (const char* problem = window_check(convolution_window(layer), in, out)) return problem;
  const int32_t groups = convolution_groups(layer);
  if (groups < 1 || in.channels % groups != 0 || out.channels % groups != 0) {
    return "a convolution's groups do not divide its channels";
  }
  const ConvolutionShape shape(program, layer);
  if (int64_t{shape.window.taps()} * in.channels > kMaxTerms || int64_t{shape.window.taps()} * out.channels > kMaxTerms) {
    return "a convolution with ordinary weights adds too many terms";
  }
  return real_weights_check(program, layer, int64_t{shape.patch} * out.channels);
}

size_t convolution_scratch(const Extent& extent) {
  Region forward;
  ForwardScratch(forward, extent);
  const size_t backward = extent.layer.parameters[kRealWeight] == kAbsent ? 0 : convolution_gradient_scratch(extent);
  return forward.used > backward ? forward.used : backward;
}

void convolution_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const ConvolutionShape shape(context.program, context.layer);
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  ForwardScratch room(scratch, extent_of(context));
  const int8_t* weights = real_forward_weights(context, room.weights, shape.patch * out.channels);
  fill_offsets(context, weights, shape.patch, 1, shape.patch, in.zero_point, room.offsets);
  if (packed_gemm_is_fast() && shape.groups == 1 && room.offsets.fit) {
    with_short_type(in.bits, [&](auto type) { forward_packed<decltype(type)>(context, shape, weights, room); });
    return;
  }

  const int32_t stride = int_gemm_stride(shape.patch);
  const bool in_place = in.bits != 8 && is_matrix(shape, in, kIntGemmStep);
  const int32_t places = context.batch * out.pixels();
  with_activation_type(in.bits, [&](auto type) {
    using X = decltype(type);
    using Patch = std::conditional_t<sizeof(X) == sizeof(int32_t), int32_t, int16_t>;
    const int64_t block_values = int64_t{room.rows} * stride;
    const int32_t blocks = (places + room.rows - 1) / room.rows;
    // Once: what lies behind a patch stays 0.
    for (int64_t i = 0; i < block_values * context.threads; ++i) reinterpret_cast<Patch*>(room.patches)[i] = 0;
    parallel_for(context.threads, blocks, 1, [&](int64_t from, int64_t to, int thread) {
      Patch* gathered = reinterpret_cast<Patch*>(room.patches) + thread * block_values;
      int64_t* group = room.group + int64_t{thread} * room.rows * shape.outputs;
      int64_t* all = room.sums + int64_t{thread} * room.rows * out.channels;
      for (int32_t first = static_cast<int32_t>(from) * room.rows; first < to * room.rows && first < places; first += room.rows) {
        const int32_t rows = places - first < room.rows ? places - first : room.rows;
        for (int32_t g = 0; g < shape.groups; ++g) {
          const Patch* patches = gathered;
          if (in_place) {
            patches = context.input_values<Patch>() + static_cast<size_t>(first) * static_cast<size_t>(in.channels);
          } else {
            gather_patches<X>(context, shape, g, first, rows, stride, gathered);
          }
          const int8_t* by = weights + static_cast<int64_t>(g) * shape.outputs * shape.patch;
          int_gemm(patches, rows, stride, shape.patch, by, shape.outputs, shape.groups == 1 ? all : group);
          if (shape.groups > 1) spread(group, rows, shape.outputs, all + g * shape.outputs, out.channels);
        }
        real_requantize(context, all, room.offsets, first, rows);
      }
    });
  });
}

}  // namespace everbit
