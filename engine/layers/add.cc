// A shortcut meets its branch: one rounding for both, |A| < 2^13 so that the int32 sum of two 16-bit products and B cannot wrap.
#include "../kernels/elementwise/elementwise.h"
#include "affine.h"
#include "layers.h"

namespace everbit {
namespace {

enum Attribute { kA0, kA1, kB, kShift };
constexpr int32_t kMaxFactor = (int32_t{1} << 13) - 1;

}  // namespace

const char* add_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& out = program.tensor(layer.output);
  for (const int32_t input : layer.inputs) {
    const TensorRecord& in = program.tensor(input);
    if (in.bits == 1 || in.height != out.height || in.width != out.width || in.channels != out.channels) {
      return "an add reads tensors of different shapes, or single bits";
    }
  }
  const int32_t* a = layer.attributes;
  if (out.bits == 1 || a[kA0] > kMaxFactor || a[kA0] < -kMaxFactor || a[kA1] > kMaxFactor || a[kA1] < -kMaxFactor ||
      a[kB] > kMaxAffineOffset || a[kB] < -kMaxAffineOffset || a[kShift] < 0 ||
      a[kShift] > kMaxAffineShift) {
    return "an add has constants out of range";
  }
  return nullptr;
}

size_t add_scratch(const Extent& extent) {
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(out.elements()) * accumulator_bytes(extent.widths.non_binary);
}

void add_forward(const Context& context) {
  const TensorRecord& out = context.output();
  const int32_t* attributes = context.layer.attributes;
  add_loop({context.input_values<void>(0), context.input_values<void>(1), context.output_values<void>(), context.input(0).bits,
            context.input(1).bits, out.bits, context.batch * out.elements(), attributes[kA0], attributes[kA1], attributes[kB],
            attributes[kShift], out.zero_point});
}

void add_backward(const Context& context) {
  const Gradient& gradient = context.output_gradient();
  const size_t count = static_cast<size_t>(context.batch) * static_cast<size_t>(context.output().elements());
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    auto* sums = static_cast<decltype(accumulator)*>(context.scratch);
    for (int k = 0; k < 2; ++k) {
      if (!context.needs_input_gradient(k)) continue;
      for (size_t i = 0; i < count; ++i) sums[i] = g[i];
      write_gradient(context.gradients[context.layer.inputs[k]], sums, count, gradient.exponent, context.widths.non_binary);
    }
  });
}

}  // namespace everbit
