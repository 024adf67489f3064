// Depthwise convolution: one small filter a channel, 8-bit weights [kernel height][kernel width][C] forward, q_b-bit gradients backward.
// Places outside the image add nothing: the kernels skip them. Bounds: kernels/depthwise/depthwise.h.
#include "../memory.h"
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

struct Scratch {
  int8_t* weights;
  int64_t* row;           // forward: sums of one output row
  int64_t* offset;        // forward: biases
  int64_t* input_sums;    // backward
  int64_t* weight_sums;

  Scratch(Region& s, const Extent& extent) {
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t count = static_cast<size_t>(weight_count(extent.program, extent.layer));
    const size_t channels = static_cast<size_t>(out.channels);
    const bool learns = extent.layer.parameters[kRealWeight] != kAbsent;
    weights = s.take<int8_t>(learns ? count : 0);
    Region backward = s;
    row = s.take<int64_t>(static_cast<size_t>(out.width) * channels);
    offset = s.take<int64_t>(channels);
    input_sums = backward.take<int64_t>(learns ? static_cast<size_t>(extent.batch) * static_cast<size_t>(in.elements()) : 0);
    weight_sums = backward.take<int64_t>(learns ? count : 0);
    s.used = s.used > backward.used ? s.used : backward.used;
  }
};

Scratch scratch_of(const Context& context) {
  Region region{static_cast<uint8_t*>(context.scratch)};
  return Scratch(region, extent_of(context));
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
  Region region;
  Scratch(region, extent);
  return region.used;
}

void depthwise_convolution_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Scratch room = scratch_of(context);
  const int8_t* weights = real_forward_weights(context, room.weights, weight_count(context.program, context.layer));
  for (int32_t c = 0; c < out.channels; ++c) room.offset[c] = real_bias(context, c);
  DepthwiseRow call{depthwise_shape(window_of(context.layer), in, out), nullptr, in.bits, in.zero_point, weights, 0, room.row};
  for (int32_t b = 0; b < context.batch; ++b) {
    call.x = context.input_values<uint8_t>() + static_cast<size_t>(b) * activation_bytes(in, 1);
    for (call.row = 0; call.row < out.height; ++call.row) {
      depthwise_row(call);
      real_requantize(context, room.row, room.offset, (b * out.height + call.row) * out.width, out.width);
    }
  }
}

void depthwise_convolution_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  const int q_b = context.widths.non_binary;
  const DepthwiseShape shape = depthwise_shape(window_of(context.layer), in, out);
  const int32_t count = weight_count(context.program, context.layer);
  const size_t elements = static_cast<size_t>(in.elements());
  const size_t gradient_bytes = static_cast<size_t>(out.elements()) * static_cast<size_t>(q_b / 8);
  const uint8_t* g = static_cast<const uint8_t*>(gradient.values);
  const Scratch room = scratch_of(context);
  Parameter& weight = *context.parameter(kRealWeight);

  if (context.needs_input_gradient()) {
    const int8_t* weights = real_forward_weights(context, room.weights, count);
    for (size_t b = 0; b < static_cast<size_t>(context.batch); ++b) {
      depthwise_input_gradient({shape, g + b * gradient_bytes, q_b, weights, room.input_sums + b * elements});
    }
    write_input_gradient(context, 0, room.input_sums, gradient.exponent + weight.range_exponent - 7);
  }
  if (!weight.trainable) return;
  for (int32_t i = 0; i < count; ++i) room.weight_sums[i] = 0;
  for (size_t b = 0; b < static_cast<size_t>(context.batch); ++b) {
    depthwise_weight_gradient({shape, context.input_values<uint8_t>() + b * activation_bytes(in, 1), in.bits, in.zero_point,
                               g + b * gradient_bytes, q_b, room.weight_sums});
  }
  const Scale step = real_step(context, weight);
  const int32_t exponent = gradient.exponent + product_shift(in.bits);
  for (int32_t i = 0; i < count; ++i) update_parameter(weight, i, room.weight_sums[i], step, exponent);
}

}  // namespace everbit
