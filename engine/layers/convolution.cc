// Convolution with ordinary weights, in groups or not: patches times 8-bit weights, each block of places one gemm for every group.
// The gradients stand in convolution_gradient.cc.
//
// The gemm takes the stored integers; the zero point leaves through the sum of the weights, and places outside the image hold the zero
// point, so that they add nothing. Sums in int64: 2^24 terms of 32 + 7 bits. Where the weights at hand let no sum leave 32 bits and the
// instruction set has a kernel for that, they take that way (packed_gemm), to the same integers.
#include "convolution.h"

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

// Values from one patch to the next: those of packed_gemm() have up to three spare values behind each row under the window.
int32_t patch_stride(const ConvolutionShape& shape) { return int_gemm_stride(shape.patch + 3 * shape.window.kernel_height); }

// What both ways of the forward pass need.
struct ForwardScratch {
  int8_t* weights;
  RealOffsets offsets;
  int32_t rows;      // places at once
  uint8_t* patches;  // threads x rows x patch_stride() values of patch_bytes()

  ForwardScratch(Region& s, const Extent& extent)
      : weights(s.take<int8_t>(extent.layer.parameters[kRealWeight] == kAbsent ? 0 : weight_count(extent))),
        offsets(s, extent.program.tensor(extent.layer.output).channels) {
    const ConvolutionShape shape(extent.program, extent.layer);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t bytes = patch_bytes(extent.program.tensor(extent.layer.inputs[0]).bits);
    rows = rows_at_once(shape.patch, bytes, out.channels, extent.batch * out.pixels(), extent.threads);
    patches = s.take<uint8_t>(saturating_product(at_once(extent), static_cast<size_t>(patch_stride(shape)) * bytes));
  }

  size_t at_once(const Extent& extent) const { return static_cast<size_t>(extent.threads) * static_cast<size_t>(rows); }

  static size_t weight_count(const Extent& extent) {
    const ConvolutionShape shape(extent.program, extent.layer);
    return static_cast<size_t>(extent.program.tensor(extent.layer.output).channels) * static_cast<size_t>(shape.patch);
  }
};

// The general way: int_gemm().
struct GeneralScratch : ForwardScratch {
  int64_t* group;  // threads x rows x outputs, where there are groups
  int64_t* sums;   // threads x rows x C_out

  GeneralScratch(Region& s, const Extent& extent) : ForwardScratch(s, extent) {
    const ConvolutionShape shape(extent.program, extent.layer);
    group = s.take<int64_t>(shape.groups == 1 ? 0 : at_once(extent) * static_cast<size_t>(shape.outputs));
    sums = s.take<int64_t>(at_once(extent) * static_cast<size_t>(extent.program.tensor(extent.layer.output).channels));
  }
};

bool may_be_packed(const Program& program, const LayerRecord& layer) {
  return convolution_groups(layer) == 1 && program.tensor(layer.inputs[0]).bits != 32;
}

// The way of packed_gemm().
struct PackedScratch : ForwardScratch {
  uint32_t* packed;  // weights
  int32_t* sums;     // threads x rows x C_out

  PackedScratch(Region& s, const Extent& extent) : ForwardScratch(s, extent) {
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const int32_t channels = extent.program.tensor(extent.layer.output).channels;
    const Window window = convolution_window(extent.layer);
    packed = s.take<uint32_t>(packed_words(window.kernel_height, window.kernel_width * in.channels, channels, in.bits));
    sums = s.take<int32_t>(at_once(extent) * static_cast<size_t>(channels));
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

// Whether the input itself is a matrix of patches; values: of a row that are read together.
bool is_matrix(const ConvolutionShape& shape, const TensorRecord& in, int32_t values) {
  return shape.window.taps() == 1 && shape.window.stride == 1 && shape.groups == 1 && in.channels % values == 0;
}

// Outputs of one row whose windows lie inside the image and may be read where they stand: from the first to the one before the last.
struct InnerColumns {
  int32_t first = 0, last = 0;

  InnerColumns(const Window& w, const TensorRecord& in, const TensorRecord& out, int32_t row, int32_t spare) {
    const int32_t bottom = row * w.stride - w.top + w.kernel_height;
    if (bottom < w.kernel_height || bottom > in.height) return;
    // Up to `spare` values, several pixels where there are few channels, are read behind each row under the window; behind the last pixel
    // of the image there may be nothing.
    const int64_t behind = int64_t{in.width} * (in.height - bottom + 1) - (spare + in.channels - 1) / in.channels;
    const int32_t width = behind < in.width ? static_cast<int32_t>(behind) : in.width;
    if (width < w.kernel_width) return;
    first = (w.left + w.stride - 1) / w.stride;
    last = (width - w.kernel_width + w.left) / w.stride + 1;
    last = last < out.width ? last : out.width;
    if (last < first) first = last = 0;
  }
};

// The patches of one row of outputs, with room for the spare values behind each row under the window.
template <typename X>
void gather_patch(const Context& context, const Window& window, const X* image, int32_t row, int32_t column, int32_t segment, X* to) {
  const TensorRecord& in = context.input();
  for (int32_t i = 0; i < window.kernel_height; ++i, to += segment) {
    const int32_t y = row * window.stride + i - window.top;
    for (int32_t j = 0; j < window.kernel_width; ++j) {
      const int32_t x = column * window.stride + j - window.left;
      const bool inside = y >= 0 && y < in.height && x >= 0 && x < in.width;
      for (int32_t c = 0; c < in.channels; ++c) {
        to[j * in.channels + c] = inside ? image[(y * in.width + x) * in.channels + c] : static_cast<X>(in.zero_point);
      }
    }
  }
}

// Products of some rows of A from place `first` on.
struct PackedRows {
  const Context& context;
  const PackedScratch& room;
  PackedGemmCall call;

  void operator()(const void* a, int64_t stride, int64_t segment_stride, int32_t first, int32_t count, int32_t* sums) const {
    for (int32_t done = 0; done < count; done += room.rows) {
      PackedGemmCall part = call;
      part.a = element_at(a, done * stride, call.bits);
      part.rows = count - done < room.rows ? count - done : room.rows;
      part.stride = stride;
      part.segment_stride = segment_stride;
      part.c = sums;
      packed_gemm(part);
      real_requantize(context, sums, room.offsets, first + done, part.rows);
    }
  }
};

template <typename X>
void forward_packed(const Context& context, const ConvolutionShape& shape, const int8_t* weights, const PackedScratch& room) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window& window = shape.window;
  const int32_t length = window.kernel_width * in.channels;
  const int32_t segment = packed_steps(length, in.bits) * packed_step(in.bits);
  pack_weights(weights, window.kernel_height, length, out.channels, in.bits, room.packed);
  const PackedRows multiply{context, room, {nullptr, in.bits, 0, 0, window.kernel_height, 0, length, room.packed, out.channels, nullptr}};
  const X* x = context.input_values<X>();
  const auto sums_of = [&](int thread) { return room.sums + int64_t{thread} * room.rows * out.channels; };
  if (is_matrix(shape, in, packed_step(in.bits))) {
    parallel_for(context.threads, context.batch * out.pixels(), room.rows, [&](int64_t first, int64_t last, int thread) {
      multiply(x + first * in.channels, in.channels, 0, static_cast<int32_t>(first), static_cast<int32_t>(last - first), sums_of(thread));
    });
    return;
  }
  const int64_t grain = kElementGrain / (int64_t{out.width} * shape.patch);
  parallel_for(context.threads, context.batch * out.height, grain, [&](int64_t from, int64_t to, int thread) {
    X* patch = reinterpret_cast<X*>(room.patches) + int64_t{thread} * room.rows * patch_stride(shape);
    for (int32_t line = static_cast<int32_t>(from); line < to; ++line) {
      const X* image = x + static_cast<int64_t>(line / out.height) * in.elements();
      const int32_t row = line % out.height, first = line * out.width;
      const InnerColumns inner(window, in, out, row, segment - length);
      for (int32_t column = 0; column < out.width; ++column) {
        if (column == inner.first && column < inner.last) {
          const X* a = image + (int64_t{row * window.stride - window.top} * in.width + column * window.stride - window.left) * in.channels;
          multiply(a, int64_t{window.stride} * in.channels, int64_t{in.width} * in.channels, first + column, inner.last - inner.first,
                   sums_of(thread));
          column = inner.last - 1;
        } else {
          gather_patch(context, window, image, row, column, segment, patch);
          multiply(patch, 0, segment, first + column, 1, sums_of(thread));
        }
      }
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
  Region general, packed;
  GeneralScratch(general, extent);
  if (extent.processor.packed_gemm && may_be_packed(extent.program, extent.layer)) PackedScratch(packed, extent);
  const size_t forward = general.used > packed.used ? general.used : packed.used;  // whichever is taken
  const size_t backward = extent.layer.parameters[kRealWeight] == kAbsent ? 0 : convolution_gradient_scratch(extent);
  return forward > backward ? forward : backward;
}

void convolution_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const ConvolutionShape shape(context.program, context.layer);
  const Extent extent = extent_of(context);
  // Where both ways begin the same: weights and offsets, which say whether the sums are short.
  Region common{static_cast<uint8_t*>(context.scratch)};
  ForwardScratch start(common, extent);
  const int8_t* weights = real_forward_weights(context, start.weights, shape.patch * out.channels);
  fill_offsets(context, weights, shape.patch, 1, shape.patch, in.zero_point, start.offsets);
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  if (kPackedGemmExists && packed_gemm_is_fast() && may_be_packed(context.program, context.layer) && start.offsets.fit) {
    const PackedScratch room(scratch, extent);
    with_short_type(in.bits, [&](auto type) { forward_packed<decltype(type)>(context, shape, weights, room); });
    return;
  }

  const GeneralScratch room(scratch, extent);
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
