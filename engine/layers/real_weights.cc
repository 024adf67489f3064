#include "real_weights.h"

#include "../kernels/elementwise/elementwise.h"
#include "../parallel.h"

namespace everbit {

const char* real_weights_check(const Program& program, const LayerRecord& layer, int64_t count) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || out.bits == 1) return "a convolution with ordinary weights reads or writes single bits";
  const int32_t parameter = layer.parameters[kRealWeight];
  const bool constant = layer.arrays[kRealWeight].bytes != 0;
  if (constant == (parameter != kAbsent)) return "a convolution needs either constant or learnable weights";
  if (constant && program.learnable(layer)) return "a convolution behind the latent needs learnable weights";
  if (constant ? layer.arrays[kRealWeight].bytes != count || layer.arrays[kRealBias].bytes != out.channels * 4
               : program.parameter(parameter).count != count || layer.arrays[kRealBias].bytes != 0) {
    return "a convolution's weights or biases do not fit its shape";
  }
  const int32_t multipliers = constant ? out.channels : 1;
  if (layer.arrays[kRealMantissa].bytes != multipliers * 4 || layer.arrays[kRealExponent].bytes != multipliers) {
    return "a convolution needs one multiplier a channel, or one in all where it learns";
  }
  for (int32_t c = 0; c < multipliers; ++c) {
    if (!valid_scale({program.array<int32_t>(layer, kRealMantissa)[c], program.array<int8_t>(layer, kRealExponent)[c]})) {
      return "a convolution has an impossible multiplier";
    }
  }
  return valid_scale(layer.scale_attribute(kRealInputScale)) ? nullptr : "a convolution has an impossible input scale";
}

const int8_t* real_forward_weights(const Context& context, int8_t* room, int32_t count) {
  const Parameter* weight = context.parameter(kRealWeight);
  if (weight == nullptr) return context.program.array<int8_t>(context.layer, kRealWeight);
  with_activation_type(weight->width, [&](auto type) {
    parallel_for(context.threads, count, kElementGrain, [&](int64_t first, int64_t last, int) {
      const auto* __restrict from = static_cast<const decltype(type)*>(weight->values);
      int8_t* __restrict to = room;
      for (int64_t i = first; i < last; ++i) to[i] = static_cast<int8_t>(forward8(from[i], 8 * sizeof(type)));
    });
  });
  return room;
}

void real_requantize(const Context& context, const int64_t* sums, const int64_t* offset, int32_t first, int32_t pixels) {
  const TensorRecord& out = context.output();
  uint8_t* y = context.output_values<uint8_t>() +
               static_cast<size_t>(first) * static_cast<size_t>(out.channels) * static_cast<size_t>(out.bits / 8);
  requantize_loop({sums, y, out.bits, pixels, out.channels, offset, context.program.array<int32_t>(context.layer, kRealMantissa),
                   context.program.array<int8_t>(context.layer, kRealExponent), context.parameter(kRealWeight) != nullptr,
                   out.zero_point},
                  1);
}

}  // namespace everbit
