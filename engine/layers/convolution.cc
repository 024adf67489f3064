// Convolution with ordinary weights, in groups or not: patches times 8-bit weights, each block of places one gemm for every group.
// The gradients stand in convolution_gradient.cc.
//
// The gemm takes the stored integers; the zero point leaves through the sum of the weights, and places outside the image hold the zero
// point, so that they add nothing. Sums in int64: 2^24 terms of 32 + 7 bits.
#include "convolution.h"

#include <type_traits>

#include "../memory.h"
#include "../parallel.h"
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
  uint8_t* patches;  // threads x rows x stride values of patch_bytes()
  int64_t* group;    // threads x rows x outputs, where there are groups
  int64_t* sums;     // threads x rows x C_out
  int64_t* offset;   // C_out

  ForwardScratch(Region& s, const Extent& extent) {
    const ConvolutionShape shape(extent.program, extent.layer);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t channels = static_cast<size_t>(out.channels);
    const size_t bytes = patch_bytes(extent.program.tensor(extent.layer.inputs[0]).bits);
    rows = rows_at_once(shape.patch, bytes, out.channels, extent.batch * out.pixels(), extent.threads);
    const size_t at_once = static_cast<size_t>(extent.threads) * static_cast<size_t>(rows);
    weights = s.take<int8_t>(extent.layer.parameters[kRealWeight] == kAbsent ? 0 : channels * static_cast<size_t>(shape.patch));
    patches = s.take<uint8_t>(at_once * static_cast<size_t>(int_gemm_stride(shape.patch)) * bytes);
    group = s.take<int64_t>(shape.groups == 1 ? 0 : at_once * static_cast<size_t>(shape.outputs));
    sums = s.take<int64_t>(at_once * channels);
    offset = s.take<int64_t>(channels);
  }
};

// What each output's sum takes besides the products: the bias, less what the zero point adds to every sum of a channel.
void fill_offsets(const Context& context, const int8_t* weights, int32_t length, int64_t* offset) {
  parallel_for(context.threads, context.output().channels, kElementGrain / length, [&](int64_t first, int64_t last, int) {
    for (int64_t c = first; c < last; ++c) {
      int64_t sum = 0;
      for (int32_t k = 0; k < length; ++k) sum += weights[c * length + k];
      offset[c] = real_bias(context, static_cast<int32_t>(c)) - sum * context.input().zero_point;
    }
  });
}

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
        real_requantize(context, all, room.offset, first, rows);
      }
    });
  });
}

}  // namespace everbit
