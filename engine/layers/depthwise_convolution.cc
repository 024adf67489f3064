// Depthwise convolution: one small filter a channel, 8-bit weights [kernel height][kernel width][C] forward, q_b-bit gradients backward.
// Places outside the image add nothing: the kernels skip them. Bounds: kernels/depthwise/depthwise.h.
#include "../memory.h"
#include "../parallel.h"
#include "depthwise_shape.h"
#include "layers.h"
#include "real_weights.h"

namespace everbit {
namespace {

constexpr int kSkew = 6;  // attribute

Window window_of(const LayerRecord& layer) {
  const int32_t* a = layer.attributes;
  return {a[0], a[1], a[2], a[3], left_padding(a[3], a[kSkew])};
}

int32_t weight_count(const Program& program, const LayerRecord& layer) {
  return window_of(layer).taps() * program.tensor(layer.output).channels;
}

bool learns(const LayerRecord& layer) { return layer.parameters[kRealWeight] != kAbsent; }

struct ForwardScratch {
  int8_t* weights;
  RealOffsets offsets;  // biases
  int64_t* row;         // threads x sums of one output row
  int32_t* short_row;   // the same where the kernel gives 32 bits

  ForwardScratch(Region& s, const Extent& extent)
      : weights(s.take<int8_t>(learns(extent.layer) ? static_cast<size_t>(weight_count(extent.program, extent.layer)) : 0)),
        offsets(s, extent.program.tensor(extent.layer.output).channels) {
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t places = static_cast<size_t>(extent.threads) * static_cast<size_t>(out.width);
    const size_t values = saturating_product(places, static_cast<size_t>(out.channels));
    row = s.take<int64_t>(values);
    short_row = s.take<int32_t>(extent.program.tensor(extent.layer.inputs[0]).bits == 32 ? 0 : values);
  }
};

struct BackwardScratch {
  int8_t* weights;
  int64_t* input_sums;
  int64_t* weight_sums;  // threads x weights

  BackwardScratch(Region& s, const Extent& extent) {
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const size_t count = static_cast<size_t>(weight_count(extent.program, extent.layer));
    weights = s.take<int8_t>(count);
    input_sums = s.take<int64_t>(static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()));
    weight_sums = s.take<int64_t>(static_cast<size_t>(extent.threads) * count);
  }
};

const uint8_t* image_of(const Context& context, int64_t index) {
  return context.input_values<uint8_t>() + index * static_cast<int64_t>(activation_bytes(context.input(), 1));
}

}  // namespace

const char* depthwise_convolution_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.channels != out.channels) return "a depthwise convolution changes the number of channels";
  if (const char* problem = window_check(window_of(layer), in, out)) return problem;
  if (window_of(layer).taps() > kDepthwiseMaxTaps) return "a depthwise convolution adds too many terms";
  return real_weights_check(program, layer, weight_count(program, layer));
}

size_t depthwise_convolution_scratch(const Extent& extent) {
  Region forward, backward;
  ForwardScratch(forward, extent);
  if (learns(extent.layer)) BackwardScratch(backward, extent);
  return forward.used > backward.used ? forward.used : backward.used;
}

void depthwise_convolution_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  ForwardScratch room(scratch, extent_of(context));
  const int8_t* weights = real_forward_weights(context, room.weights, weight_count(context.program, context.layer));
  fill_offsets(context, weights, window_of(context.layer).taps(), out.channels, 1, 0, room.offsets);
  const DepthwiseShape shape = depthwise_shape(window_of(context.layer), in, out);
  const int32_t values = out.width * out.channels;
  parallel_for(context.threads, context.batch * out.height, kElementGrain / values, [&](int64_t first, int64_t last, int thread) {
    int64_t* sums = room.row + int64_t{thread} * values;
    int32_t* short_sums = room.short_row + int64_t{thread} * values;
    for (int32_t row = static_cast<int32_t>(first); row < last; ++row) {
      void* to = in.bits == 32 ? static_cast<void*>(sums) : short_sums;
      depthwise_row({shape, image_of(context, row / out.height), in.bits, in.zero_point, weights, row % out.height, to});
      if (room.offsets.fit) {
        real_requantize(context, short_sums, room.offsets, row * out.width, out.width);
        continue;
      }
      for (int32_t i = 0; in.bits != 32 && i < values; ++i) sums[i] = short_sums[i];
      real_requantize(context, sums, room.offsets, row * out.width, out.width);
    }
  });
}

void depthwise_convolution_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  const int q_b = context.widths.non_binary;
  const DepthwiseShape shape = depthwise_shape(window_of(context.layer), in, out);
  const int32_t count = weight_count(context.program, context.layer);
  const auto gradient_of = [&](int64_t b) { return element_at(gradient.values, b * out.elements(), q_b); };
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  const BackwardScratch room(scratch, extent_of(context));
  Parameter& weight = *context.parameter(kRealWeight);

  if (context.needs_input_gradient()) {
    const int8_t* weights = real_forward_weights(context, room.weights, count);
    parallel_for(context.threads, context.batch, kElementGrain / in.elements(), [&](int64_t first, int64_t last, int) {
      for (int64_t b = first; b < last; ++b) {
        depthwise_input_gradient({shape, gradient_of(b), q_b, weights, room.input_sums + b * in.elements()});
      }
    });
    write_input_gradient(context, 0, room.input_sums, gradient.exponent + weight.range_exponent - 7);
  }
  if (!weight.trainable) return;
  const int64_t all = int64_t{context.threads} * count;
  for (int64_t i = 0; i < all; ++i) room.weight_sums[i] = 0;
  parallel_for(context.threads, context.batch, kElementGrain / out.elements(), [&](int64_t first, int64_t last, int thread) {
    int64_t* sums = room.weight_sums + int64_t{thread} * count;
    for (int64_t b = first; b < last; ++b) {
      depthwise_weight_gradient({shape, image_of(context, b), in.bits, in.zero_point, gradient_of(b), q_b, sums});
    }
  });
  for (int64_t i = count; i < all; ++i) room.weight_sums[i % count] += room.weight_sums[i];
  update_weights(weight, 0, count, room.weight_sums, real_step(context, weight), gradient.exponent + product_shift(in.bits));
}

}  // namespace everbit
