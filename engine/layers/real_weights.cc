#include "real_weights.h"

#include "../kernels/elementwise/elementwise.h"
#include "../kernels/requantize/requantize.h"
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
  parallel_for(context.threads, count, kElementGrain, [&](int64_t first, int64_t last, int) {
    weights_loop({element_at(weight->values, first, weight->width), weight->width, last - first, room + first});
  });
  return room;
}

namespace {

// Of `length` weights, one every `step`.
WeightSumsCall weight_sums(const int8_t* w, int32_t length, int64_t step) {
  WeightSumsCall call{w, length, 0, 0};
  if (step == 1) {
    weight_sums_loop(call);
    return call;
  }
  for (int32_t k = 0; k < length; ++k) {
    const int32_t value = w[k * step];
    call.sum += value;
    call.magnitude += static_cast<uint32_t>(value < 0 ? -value : value);
  }
  return call;
}

}  // namespace

void fill_offsets(const Context& context, const int8_t* weights, int32_t length, int64_t step, int64_t next, int32_t zero_point,
                  RealOffsets& offsets) {
  const int32_t channels = context.output().channels;
  const int8_t* exponent = context.program.array<int8_t>(context.layer, kRealExponent);
  const bool one_multiplier = context.parameter(kRealWeight) != nullptr;
  const int32_t bits = context.input().bits;
  uint32_t too_large = bits == 32 || context.output().bits == 32;
  parallel_for(context.threads, channels, kElementGrain / length, [&](int64_t first, int64_t last, int) {
    uint32_t wide = 0;
    for (int64_t c = first; c < last; ++c) {
      const WeightSumsCall sums = weight_sums(weights + c * next, length, step);
      const int64_t offset = real_bias(context, static_cast<int32_t>(c)) - int64_t{sums.sum} * zero_point;
      const int64_t largest = (int64_t{sums.magnitude} << (bits & 31)) + (offset < 0 ? -offset : offset);  // values may be unsigned
      const int32_t by = exponent[one_multiplier ? 0 : c];
      wide |= largest > INT32_MAX || by > 0 || by < -31;
      offsets.all[c] = offset;
      offsets.fitting[c] = static_cast<int32_t>(offset);
    }
    join_or(too_large, wide);
  });
  offsets.fit = too_large == 0;
}

namespace {

uint8_t* output_at(const Context& context, int32_t first) {
  const TensorRecord& out = context.output();
  return context.output_values<uint8_t>() +
         static_cast<size_t>(first) * static_cast<size_t>(out.channels) * static_cast<size_t>(out.bits / 8);
}

}  // namespace

void real_requantize(const Context& context, const int64_t* sums, const RealOffsets& offsets, int32_t first, int32_t pixels) {
  const TensorRecord& out = context.output();
  requantize_loop({sums, output_at(context, first), out.bits, pixels, out.channels, offsets.all,
                   context.program.array<int32_t>(context.layer, kRealMantissa),
                   context.program.array<int8_t>(context.layer, kRealExponent),
                   context.parameter(kRealWeight) != nullptr, out.zero_point},
                  1);
}

void real_requantize(const Context& context, const int32_t* sums, const RealOffsets& offsets, int32_t first, int32_t pixels) {
  const TensorRecord& out = context.output();
  short_requantize({sums, output_at(context, first), out.bits, pixels, out.channels, offsets.fitting,
                    context.program.array<int32_t>(context.layer, kRealMantissa),
                   context.program.array<int8_t>(context.layer, kRealExponent),
                    context.parameter(kRealWeight) != nullptr, out.zero_point});
}

}  // namespace everbit
