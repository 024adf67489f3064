// Convolution with ordinary weights, in groups or not: patches times 8-bit weights, each block of places one gemm for every group.
// The gradients stand in convolution_gradient.cc.
//
// The gemm takes the stored integers; the zero point leaves through the sum of the weights, and places outside the image hold the zero
// point, so that they add nothing. Sums in int64: 2^24 terms of 32 + 7 bits.
#include "convolution.h"

#include <type_traits>

#include "../memory.h"
#include "layers.h"
#include "real_weights.h"

namespace everbit {
namespace {

constexpr int64_t kMaxTerms = int64_t{1} << 24;  // of one output's sum, and of one input's gradient

// Bytes of one value of a patch.
size_t patch_bytes(int32_t bits) { return bits == 32 ? sizeof(int32_t) : sizeof(int16_t); }

struct ForwardScratch {
  int32_t rows;
  int8_t* weights;
  uint8_t* patches;  // rows x stride values of patch_bytes()
  int64_t* group;    // rows x outputs, where there are groups
  int64_t* sums;     // rows x C_out
  int64_t* offset;   // C_out

  ForwardScratch(Region& s, const Extent& extent) {
    const ConvolutionShape shape(extent.program, extent.layer);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t channels = static_cast<size_t>(out.channels);
    const size_t bytes = patch_bytes(extent.program.tensor(extent.layer.inputs[0]).bits);
    rows = rows_at_once(shape.patch, bytes, out.channels, extent.batch * out.pixels());
    weights = s.take<int8_t>(extent.layer.parameters[kRealWeight] == kAbsent ? 0 : channels * static_cast<size_t>(shape.patch));
    patches = s.take<uint8_t>(static_cast<size_t>(rows) * static_cast<size_t>(int_gemm_stride(shape.patch)) * bytes);
    group = s.take<int64_t>(shape.groups == 1 ? 0 : static_cast<size_t>(rows) * static_cast<size_t>(shape.outputs));
    sums = s.take<int64_t>(static_cast<size_t>(rows) * channels);
    offset = s.take<int64_t>(channels);
  }
};

// What each output's sum takes besides the products: the bias, less what the zero point adds to every sum of a channel.
void fill_offsets(const Context& context, const int8_t* weights, int32_t length, int64_t* offset) {
  for (int32_t c = 0; c < context.output().channels; ++c) {
    int64_t sum = 0;
    for (int32_t k = 0; k < length; ++k) sum += weights[static_cast<int64_t>(c) * length + k];
    offset[c] = real_bias(context, c) - sum * context.input().zero_point;
  }
}

// Rows of patches of one group at the places from `first` on.
template <typename X, typename Patch>
void gather_patches(const Context& context, const ConvolutionShape& shape, int32_t g, int32_t first, int32_t rows, int32_t stride,
                    Patch* patches) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const X* x = context.input_values<X>() + g * shape.inputs;
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t place = (first + r) % out.pixels();
    const X* image = x + static_cast<size_t>((first + r) / out.pixels()) * static_cast<size_t>(in.elements());
    for_each_tap(shape.window, in, place / out.width, place % out.width, [&](int32_t tap, int32_t pixel) {
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

// Whether the input itself is a matrix of patches that the gemm can read.
bool reads_in_place(const ConvolutionShape& shape, const TensorRecord& in) {
  return shape.window.taps() == 1 && shape.window.stride == 1 && shape.groups == 1 && in.bits != 8 &&
         in.channels % kIntGemmStep == 0;
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
  const ForwardScratch room(scratch, extent_of(context));
  const int8_t* weights = real_forward_weights(context, room.weights, shape.patch * out.channels);
  fill_offsets(context, weights, shape.patch, room.offset);

  const int32_t stride = int_gemm_stride(shape.patch);
  const bool in_place = reads_in_place(shape, in);
  const int32_t places = context.batch * out.pixels();
  with_activation_type(in.bits, [&](auto type) {
    using X = decltype(type);
    using Patch = std::conditional_t<sizeof(X) == sizeof(int32_t), int32_t, int16_t>;
    Patch* room_for_patches = reinterpret_cast<Patch*>(room.patches);
    for (int32_t i = 0; i < room.rows * stride; ++i) room_for_patches[i] = 0;  // once: what lies behind a patch stays 0
    for (int32_t first = 0; first < places; first += room.rows) {
      const int32_t rows = places - first < room.rows ? places - first : room.rows;
      for (int32_t g = 0; g < shape.groups; ++g) {
        const Patch* patches = room_for_patches;
        if (in_place) {
          patches = context.input_values<Patch>() + static_cast<size_t>(first) * static_cast<size_t>(in.channels);
        } else {
          gather_patches<X>(context, shape, g, first, rows, stride, room_for_patches);
        }
        const int8_t* by = weights + static_cast<int64_t>(g) * shape.outputs * shape.patch;
        int64_t* sums = shape.groups == 1 ? room.sums : room.group;
        int_gemm(patches, rows, stride, shape.patch, by, shape.outputs, sums);
        if (shape.groups > 1) spread(sums, rows, shape.outputs, room.sums + g * shape.outputs, out.channels);
      }
      real_requantize(context, room.sums, room.offset, first, rows);
    }
  });
}

}  // namespace everbit
