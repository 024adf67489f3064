// Batch norm of the frozen part, folded into one multiply-add a channel.
#include "affine.h"

#include "../kernels/elementwise/elementwise.h"
#include "layers.h"

namespace everbit {

namespace {

bool wide(const TensorRecord& in, const TensorRecord& out) { return in.bits == 32 || out.bits == 32; }

const char* wide_constants_check(const Program& program, const LayerRecord& layer, int32_t channels) {
  if (layer.arrays[0].bytes != channels * 4 || layer.arrays[1].bytes != channels * 8 || layer.arrays[2].bytes != channels) {
    return "a layer's affine constants for 32 bits do not have one value a channel";
  }
  const int64_t* B = program.array<int64_t>(layer, 1);
  const uint8_t* s = program.array<uint8_t>(layer, 2);
  for (int32_t c = 0; c < channels; ++c) {
    if (B[c] > kMaxWideOffset || B[c] < -kMaxWideOffset || s[c] > kMaxWideShift) {
      return "a layer's affine constants are out of range";
    }
  }
  return nullptr;
}

void wide_forward(const Context& context) {
  const TensorRecord& out = context.output();
  const int32_t* A = context.program.array<int32_t>(context.layer, 0);
  const int64_t* B = context.program.array<int64_t>(context.layer, 1);
  const uint8_t* s = context.program.array<uint8_t>(context.layer, 2);
  with_activation_type(context.input().bits, [&](auto from) {
    with_activation_type(out.bits, [&](auto to) {
      const auto* x = context.input_values<decltype(from)>();
      auto* y = context.output_values<decltype(to)>();
      for (int32_t p = 0; p < context.batch * out.pixels(); ++p) {
        for (int32_t c = 0; c < out.channels; ++c) {
          const int64_t moved = rounding_shift(int64_t{*x++} * A[c] + B[c], s[c]);
          *y++ = static_cast<decltype(to)>(saturate(out.zero_point + moved, out.bits));
        }
      }
    });
  });
}

}  // namespace

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
  return wide(in, out) ? wide_constants_check(program, layer, in.channels) : affine_constants_check(program, layer, in.channels);
}

void affine_forward(const Context& context) {
  const TensorRecord& out = context.output();
  if (wide(context.input(), out)) {
    wide_forward(context);
    return;
  }
  const AffineConstants affine = affine_constants(context.program, context.layer);
  affine_loop({context.input_values<void>(), context.output_values<void>(), context.input().bits, out.bits,
               context.batch * out.pixels(), out.channels, affine.A, affine.B, affine.s, out.zero_point}, context.threads);
}

}  // namespace everbit
