// ReLU, ReLU6, hardtanh: values between two bounds, in the numbers of the input; the gradient passes strictly between them.
#include "../kernels/gradient/gradient.h"
#include "../memory.h"
#include "../parallel.h"
#include "layers.h"
#include "same_numbers.h"

namespace everbit {
namespace {

enum Attribute { kLow, kHigh };

}  // namespace

const char* clamp_check(const Program& program, const LayerRecord& layer) {
  if (const char* problem = same_numbers_check(program, layer)) return problem;
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  if (in.pixels() != program.tensor(layer.output).pixels()) return "a clamp changes the shape of its input";
  const int64_t half = int64_t{1} << (in.bits - 1);
  const int32_t low = layer.attributes[kLow];
  const int32_t high = layer.attributes[kHigh];
  // The bounds -half - 1 and half are beyond every value of 8 or 16 bits: nothing is clamped there, and every gradient passes.
  if (low < -half - 1 || high > half || low > high || low >= half || high < -half) return "a clamp has impossible bounds";
  return nullptr;
}

size_t clamp_scratch(const Extent& extent) {
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  return static_cast<size_t>(extent.batch) * static_cast<size_t>(out.elements()) * accumulator_bytes(extent.widths.non_binary);
}

void clamp_forward(const Context& context) {
  const TensorRecord& out = context.output();
  const int64_t count = int64_t{context.batch} * out.elements();
  with_activation_type(out.bits, [&](auto type) {
    using T = decltype(type);
    parallel_for(context.threads, count, kElementGrain, [&](int64_t first, int64_t last, int) {
      const T low = static_cast<T>(saturate(context.layer.attributes[kLow], out.bits));
      const T high = static_cast<T>(saturate(context.layer.attributes[kHigh], out.bits));
      const T* __restrict x = context.input_values<T>();
      T* __restrict y = context.output_values<T>();
      for (int64_t i = first; i < last; ++i) {
        const T above = x[i] < low ? low : x[i];
        y[i] = above > high ? high : above;
      }
    });
  });
}

void clamp_backward(const Context& context) {
  if (!context.needs_input_gradient()) return;
  const TensorRecord& in = context.input();
  const Gradient& gradient = context.output_gradient();
  const int32_t low = context.layer.attributes[kLow];
  const int32_t high = context.layer.attributes[kHigh];
  const int64_t count = int64_t{context.batch} * in.elements();
  const int32_t q_b = context.widths.non_binary;
  Gradient& to = context.gradients[context.layer.inputs[0]];
  if (!to.present && q_b <= 16) {  // quantizing would change nothing: the numbers have q_b bits already
    parallel_for(context.threads, count, kElementGrain, [&](int64_t first, int64_t last, int) {
      mask_loop({element_at(context.input_values<void>(), first, in.bits), in.bits, low, high, element_at(gradient.values, first, q_b),
                 element_at(to.values, first, q_b), q_b, last - first});
    });
    to.exponent = gradient.exponent;
    to.present = true;
    return;
  }
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    auto* sums = static_cast<decltype(accumulator)*>(context.scratch);
    with_activation_type(in.bits, [&](auto type) {
      const auto* x = context.input_values<decltype(type)>();
      parallel_for(context.threads, count, kElementGrain, [&](int64_t first, int64_t last, int) {
        for (int64_t i = first; i < last; ++i) sums[i] = x[i] > low && x[i] < high ? g[i] : 0;
      });
    });
    write_input_gradient(context, 0, sums, gradient.exponent);
  });
}

}  // namespace everbit
