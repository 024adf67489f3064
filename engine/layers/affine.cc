// Batch norm of the frozen part, folded into one multiply-add a channel.
#include "affine.h"

#include "../kernels/elementwise/elementwise.h"
#include "layers.h"

namespace everbit {

const char* affine_constants_check(const Program& program, const LayerRecord& layer, int32_t channels) {
  if (layer.arrays[0].bytes != channels * 2 || layer.arrays[1].bytes != channels * 4 || layer.arrays[2].bytes != channels) {
    return "a layer's affine constants do not have one value a channel";
  }
  const AffineConstants constants = affine_constants(program, layer);
  for (int32_t c = 0; c < channels; ++c) {
    if (constants.B[c] > kMaxAffineOffset || constants.B[c] < -kMaxAffineOffset || constants.s[c] > kMaxAffineShift) {
      return "a layer's affine constants are out of range";
    }
  }
  return nullptr;
}

const char* affine_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || out.bits == 1 || in.elements() != out.elements() || in.channels != out.channels) {
    return "an affine layer changes the shape of its input, or reads or writes single bits";
  }
  return affine_constants_check(program, layer, in.channels);
}

void affine_forward(const Context& context) {
  const TensorRecord& out = context.output();
  const AffineConstants affine = affine_constants(context.program, context.layer);
  affine_loop({context.input_values<void>(), context.output_values<void>(), context.input().bits, out.bits,
               context.batch * out.pixels(), out.channels, affine.A, affine.B, affine.s, out.zero_point});
}

}  // namespace everbit
