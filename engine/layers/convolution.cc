// Convolution with ordinary weights: 8-bit weights forward, q_b-bit gradients backward.
//
// The gemm multiplies the stored integers; the zero point leaves through the sum of the weights, and places outside the image hold the
// zero point, so that they add nothing. Sums in int64: 2^24 terms of 32 + 7 bits forward, of 31 + 7 bits for the input's gradient; for
// the weights' see network.cc.
#include <type_traits>

#include "../kernels/elementwise/elementwise.h"
#include "../kernels/int_gemm/int_gemm.h"
#include "../memory.h"
#include "layers.h"
#include "window.h"

namespace everbit {
namespace {

constexpr int kWeight = 0;      // arrays
constexpr int kBias = 1;
constexpr int kMantissa = 2;
constexpr int kExponent = 3;
constexpr int kInputScale = 4;  // attribute
constexpr int32_t kLeastRows = 16;  // places a block: unpacked weights serve all of them
constexpr int32_t kMostRows = 64;
constexpr int32_t kBlockBytes = 1 << 15;  // of patches and sums, where that allows more than the least
constexpr int64_t kMaxTerms = int64_t{1} << 24;  // of one output's sum, and of one input's gradient

Window window_of(const LayerRecord& layer) {
  return {layer.attributes[0], layer.attributes[1], layer.attributes[2], layer.attributes[3]};
}

int32_t patch_length(const Program& program, const LayerRecord& layer) {
  return window_of(layer).taps() * program.tensor(layer.inputs[0]).channels;
}

// Bytes of one value of a patch.
size_t patch_bytes(int32_t bits) { return bits == 32 ? sizeof(int32_t) : sizeof(int16_t); }

// Output places that are computed at once.
int32_t rows_at_once(int32_t batch, int32_t length, const TensorRecord& in, const TensorRecord& out) {
  const int64_t row = int_gemm_stride(length) * static_cast<int64_t>(patch_bytes(in.bits)) + out.channels * int64_t{sizeof(int64_t)};
  const int32_t places = batch * out.pixels();
  int32_t rows = kBlockBytes / row < kLeastRows ? kLeastRows : static_cast<int32_t>(kBlockBytes / row);
  rows = rows > kMostRows ? kMostRows : rows;
  return rows > places ? places : rows;
}

// The product of 32-bit activations; the other widths have kernels.
void int_gemm(const int32_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  for (int32_t m = 0; m < rows; ++m, a += stride) {
    for (int32_t n = 0; n < columns; ++n) {
      const int8_t* column = w + static_cast<int64_t>(n) * length;
      int64_t sum = 0;
      for (int32_t k = 0; k < length; ++k) sum += int64_t{a[k]} * column[k];
      *c++ = sum;
    }
  }
}

// Copies the weights of the forward pass to 8 bits, for a layer that learns.
const int8_t* forward_weights(const Context& context, int8_t* room, int32_t count) {
  const Parameter* weight = context.parameter(0);
  if (weight == nullptr) return context.program.array<int8_t>(context.layer, kWeight);
  for (int32_t i = 0; i < count; ++i) room[i] = static_cast<int8_t>(weight->forward8(i));
  return room;
}

}  // namespace

const char* convolution_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || out.bits == 1) return "a convolution with ordinary weights reads or writes single bits";
  if (const char* problem = window_check(window_of(layer), in, out)) return problem;
  if (patch_length(program, layer) > kMaxTerms || int64_t{window_of(layer).taps()} * out.channels > kMaxTerms) {
    return "a convolution with ordinary weights adds too many terms";
  }
  const int64_t count = int64_t{1} * patch_length(program, layer) * out.channels;
  const int32_t parameter = layer.parameters[0];
  const bool constant = layer.arrays[kWeight].bytes != 0;
  if (constant == (parameter != kAbsent)) return "a convolution needs either constant or learnable weights";
  if (constant && program.learnable(layer)) return "a convolution behind the latent needs learnable weights";
  if (constant ? layer.arrays[kWeight].bytes != count || layer.arrays[kBias].bytes != out.channels * 4
               : program.parameter(parameter).count != count || layer.arrays[kBias].bytes != 0) {
    return "a convolution's weights or biases do not fit its shape";
  }
  const int32_t multipliers = constant ? out.channels : 1;
  if (layer.arrays[kMantissa].bytes != multipliers * 4 || layer.arrays[kExponent].bytes != multipliers) {
    return "a convolution needs one multiplier a channel, or one in all where it learns";
  }
  for (int32_t c = 0; c < multipliers; ++c) {
    if (!valid_scale({program.array<int32_t>(layer, kMantissa)[c], program.array<int8_t>(layer, kExponent)[c]})) {
      return "a convolution has an impossible multiplier";
    }
  }
  if (!valid_scale(layer.scale_attribute(kInputScale))) return "a convolution has an impossible input scale";
  return nullptr;
}

size_t convolution_scratch(const Extent& extent) {
  const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  const size_t patch = static_cast<size_t>(patch_length(extent.program, extent.layer));
  const size_t weights = aligned(patch * static_cast<size_t>(out.channels));
  const size_t stride = static_cast<size_t>(int_gemm_stride(patch_length(extent.program, extent.layer)));
  const size_t rows = static_cast<size_t>(rows_at_once(extent.batch, patch_length(extent.program, extent.layer), in, out));
  const size_t forward = weights + aligned(rows * stride * patch_bytes(in.bits)) +
                         (rows + 1) * static_cast<size_t>(out.channels) * sizeof(int64_t);
  const size_t sums = static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()) * sizeof(int64_t);
  const size_t row = patch * sizeof(int64_t);
  const bool learns = extent.layer.parameters[0] != kAbsent;
  const size_t backward = learns ? weights + (sums > row ? sums : row) : 0;
  return forward > backward ? forward : backward;
}

void convolution_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = window_of(context.layer);
  const int32_t length = patch_length(context.program, context.layer);
  const int32_t* bias = context.program.array<int32_t>(context.layer, kBias);
  const int32_t* mantissa = context.program.array<int32_t>(context.layer, kMantissa);
  const int8_t* exponent = context.program.array<int8_t>(context.layer, kExponent);
  const bool shared_multiplier = context.parameter(0) != nullptr;

  uint8_t* scratch = static_cast<uint8_t*>(context.scratch);
  const int8_t* weights = forward_weights(context, reinterpret_cast<int8_t*>(scratch), length * out.channels);
  scratch += aligned(static_cast<size_t>(length) * static_cast<size_t>(out.channels));
  uint8_t* patch_memory = scratch;
  const int32_t stride = int_gemm_stride(length);
  const int32_t at_once = rows_at_once(context.batch, length, in, out);
  int64_t* sums = reinterpret_cast<int64_t*>(scratch + aligned(static_cast<size_t>(at_once) * static_cast<size_t>(stride) * patch_bytes(in.bits)));
  int64_t* offset = sums + at_once * out.channels;  // the bias, less what the zero point adds to every sum of a channel
  for (int32_t c = 0; c < out.channels; ++c) {
    int64_t sum = 0;
    for (int32_t k = 0; k < length; ++k) sum += weights[c * length + k];
    offset[c] = (bias != nullptr ? bias[c] : 0) - sum * in.zero_point;
  }

  const int32_t pixels = context.batch * out.pixels();
  with_activation_type(in.bits, [&](auto from) {
    using Patch = std::conditional_t<sizeof(from) == sizeof(int32_t), int32_t, int16_t>;
    Patch* patches = reinterpret_cast<Patch*>(patch_memory);
    for (int32_t i = 0; i < at_once * stride; ++i) patches[i] = 0;  // once: what lies behind a patch stays 0
    with_activation_type(out.bits, [&](auto to) {
      const auto* x = context.input_values<decltype(from)>();
      auto* y = context.output_values<decltype(to)>();
      for (int32_t first = 0; first < pixels; first += at_once) {
        const int32_t rows = pixels - first < at_once ? pixels - first : at_once;
        for (int32_t r = 0; r < rows; ++r) {
          const int32_t image = (first + r) / out.pixels();
          const int32_t place = (first + r) % out.pixels();
          const auto* source = x + static_cast<size_t>(image) * static_cast<size_t>(in.elements());
          for_each_tap(window, in, place / out.width, place % out.width, [&](int32_t tap, int32_t pixel) {
            Patch* to_patch = patches + r * stride + tap * in.channels;
            for (int32_t c = 0; c < in.channels; ++c) {
              to_patch[c] = static_cast<Patch>(pixel == kAbsent ? in.zero_point : source[pixel * in.channels + c]);
            }
          });
        }
        int_gemm(patches, rows, stride, length, weights, out.channels, sums);
        requantize_loop({sums, y + static_cast<size_t>(first) * static_cast<size_t>(out.channels), out.bits, rows, out.channels, offset,
                         mantissa, exponent, shared_multiplier, out.zero_point}, context.threads);
      }
    });
  });
}

void convolution_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = window_of(context.layer);
  const int32_t length = patch_length(context.program, context.layer);
  const Gradient& gradient = context.output_gradient();
  Parameter& weight = *context.parameter(0);

  uint8_t* scratch = static_cast<uint8_t*>(context.scratch);
  const int8_t* weights = forward_weights(context, reinterpret_cast<int8_t*>(scratch), length * out.channels);
  int64_t* sums = reinterpret_cast<int64_t*>(scratch + aligned(static_cast<size_t>(length) * static_cast<size_t>(out.channels)));

  with_gradient_type(context.widths.non_binary, [&](auto element, auto) {
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    if (context.needs_input_gradient()) {
      const size_t count = static_cast<size_t>(context.batch) * static_cast<size_t>(in.elements());
      for (size_t i = 0; i < count; ++i) sums[i] = 0;
      for (int32_t p = 0; p < context.batch * out.pixels(); ++p) {
        int64_t* target = sums + static_cast<size_t>(p / out.pixels()) * static_cast<size_t>(in.elements());
        const int32_t place = p % out.pixels();
        for_each_tap(window, in, place / out.width, place % out.width, [&](int32_t tap, int32_t pixel) {
          if (pixel == kAbsent) return;
          for (int32_t o = 0; o < out.channels; ++o) {
            const int64_t by = g[p * out.channels + o];
            const int8_t* w = weights + o * length + tap * in.channels;
            int64_t* to = target + pixel * in.channels;
            for (int32_t c = 0; c < in.channels; ++c) to[c] += by * w[c];
          }
        });
      }
      write_input_gradient(context, 0, sums, gradient.exponent + weight.range_exponent - 7);
    }
    if (!weight.trainable) return;
    const Scale step = step_of(context, weight) * context.layer.scale_attribute(kInputScale);
    const int32_t exponent = gradient.exponent + product_shift(in.bits);
    with_activation_type(in.bits, [&](auto from) {
      const auto* x = context.input_values<decltype(from)>();
      for (int32_t o = 0; o < out.channels; ++o) {
        for (int32_t k = 0; k < length; ++k) sums[k] = 0;
        for (int32_t p = 0; p < context.batch * out.pixels(); ++p) {
          const int64_t by = g[p * out.channels + o];
          if (by == 0) continue;
          const auto* source = x + static_cast<size_t>(p / out.pixels()) * static_cast<size_t>(in.elements());
          const int32_t place = p % out.pixels();
          for_each_tap(window, in, place / out.width, place % out.width, [&](int32_t tap, int32_t pixel) {
            if (pixel == kAbsent) return;
            for (int32_t c = 0; c < in.channels; ++c) {
              sums[tap * in.channels + c] += gradient_product(by, source[pixel * in.channels + c], in.zero_point);
            }
          });
        }
        for (int32_t k = 0; k < length; ++k) update_parameter(weight, o * length + k, sums[k], step, exponent);
      }
    });
  });
}

}  // namespace everbit
