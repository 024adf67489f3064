// A shortcut meets its branch: one rounding for both. Tensors of 8 and 16 bits: |A| < 2^13, so that the int32 sum of two 16-bit products
// and B cannot wrap. Where one of the three has 32 bits: zero points are taken off first (31 bits and a sign are left), |A| < 2^30 and no
// B, so that the sum and its rounding stay below 2^63.
#include <cstring>

#include "../kernels/elementwise/elementwise.h"
#include "../parallel.h"
#include "affine.h"
#include "layers.h"

namespace everbit {
namespace {

enum Attribute { kA0, kA1, kB, kShift };
constexpr int32_t kMaxFactor = (int32_t{1} << 13) - 1;

bool wide(const TensorRecord& first, const TensorRecord& second, const TensorRecord& out) {
  return first.bits == 32 || second.bits == 32 || out.bits == 32;
}

void wide_forward(const Context& context) {
  const TensorRecord& out = context.output();
  const int32_t* a = context.layer.attributes;
  with_activation_type(context.input(0).bits, [&](auto first) {
    with_activation_type(context.input(1).bits, [&](auto second) {
      with_activation_type(out.bits, [&](auto to) {
        const auto* x0 = context.input_values<decltype(first)>(0);
        const auto* x1 = context.input_values<decltype(second)>(1);
        auto* y = context.output_values<decltype(to)>();
        for (int32_t i = 0; i < context.batch * out.elements(); ++i) {
          const int64_t sum = (int64_t{x0[i]} - context.input(0).zero_point) * a[kA0] +
                              (int64_t{x1[i]} - context.input(1).zero_point) * a[kA1];
          y[i] = static_cast<decltype(to)>(saturate(out.zero_point + rounding_shift(sum, a[kShift]), out.bits));
        }
      });
    });
  });
}

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
  if (wide(program.tensor(layer.inputs[0]), program.tensor(layer.inputs[1]), out)) {
    const bool sound = out.bits != 1 && a[kA0] <= kMaxWideFactor && a[kA0] >= -kMaxWideFactor && a[kA1] <= kMaxWideFactor &&
                       a[kA1] >= -kMaxWideFactor && a[kB] == 0 && a[kShift] >= 0 && a[kShift] <= kMaxWideShift;
    return sound ? nullptr : "an add of 32 bits has constants out of range";
  }
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
  if (wide(context.input(0), context.input(1), out)) {
    wide_forward(context);
    return;
  }
  const int32_t* attributes = context.layer.attributes;
  add_loop({context.input_values<void>(0), context.input_values<void>(1), context.output_values<void>(), context.input(0).bits,
            context.input(1).bits, out.bits, context.batch * out.elements(), attributes[kA0], attributes[kA1], attributes[kB],
            attributes[kShift], out.zero_point}, context.threads);
}

void add_backward(const Context& context) {
  const Gradient& gradient = context.output_gradient();
  const size_t count = static_cast<size_t>(context.batch) * static_cast<size_t>(context.output().elements());
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    const auto* g = static_cast<const decltype(element)*>(gradient.values);
    auto* sums = static_cast<decltype(accumulator)*>(context.scratch);
    for (int k = 0; k < 2; ++k) {
      if (!context.needs_input_gradient(k)) continue;
      Gradient& to = context.gradients[context.layer.inputs[k]];
      auto* values = static_cast<decltype(element)*>(to.values);
      const bool first = !to.present;  // then quantizing would change nothing: the numbers have q_b bits already
      parallel_for(context.threads, static_cast<int64_t>(count), kElementGrain, [&](int64_t from, int64_t until, int) {
        if (first) {
          std::memcpy(values + from, g + from, static_cast<size_t>(until - from) * sizeof(element));
        } else {
          for (int64_t i = from; i < until; ++i) sums[i] = g[i];
        }
      });
      if (first) {
        to.exponent = gradient.exponent;
        to.present = true;
      } else {
        write_input_gradient(context, k, sums, gradient.exponent);
      }
    }
  });
}

}  // namespace everbit
