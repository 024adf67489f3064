#include "layer.h"

#include "../bits.h"
#include "../kernels/gradient/gradient.h"
#include "../memory.h"
#include "../parallel.h"
#include "layers.h"

namespace everbit {
namespace {

constexpr ParameterKind kBinary = ParameterKind::kBinary;
constexpr ParameterKind kNorm = ParameterKind::kNorm;
constexpr ParameterKind kBias = ParameterKind::kBias;
constexpr ParameterKind kWeight = ParameterKind::kWeight;

constexpr LayerKind kLayers[] = {
    // name, inputs, parameters, check, forward, backward, backward reads input, saved, scratch
    {"input", 0, {}, input_check, input_forward, nullptr, false, nullptr, nullptr},
    {"convolution", 1, {kWeight}, convolution_check, convolution_forward, convolution_backward, true, nullptr, convolution_scratch},
    {"binary_convolution", 1, {kBinary}, binary_convolution_check, binary_convolution_forward, binary_convolution_backward, true, nullptr,
     binary_convolution_scratch},
    {"affine", 1, {}, affine_check, affine_forward, nullptr, false, nullptr, nullptr},
    {"batch_norm", 1, {kNorm, kNorm}, batch_norm_check, batch_norm_forward, batch_norm_backward, false, batch_norm_saved, batch_norm_scratch},
    {"sign", 1, {kBias}, sign_check, sign_forward, sign_backward, true, nullptr, sign_scratch},
    {"add", 2, {}, add_check, add_forward, add_backward, false, nullptr, add_scratch},
    {"rprelu", 1, {kBias, kBias, kBias}, rprelu_check, rprelu_forward, rprelu_backward, true, nullptr, rprelu_scratch},
    {"average_pool", 1, {}, average_pool_check, average_pool_forward, average_pool_backward, false, nullptr, average_pool_scratch},
    {"max_pool", 1, {}, max_pool_check, max_pool_forward, max_pool_backward, false, max_pool_saved, max_pool_scratch},
    {"global_average_pool", 1, {}, global_average_pool_check, global_average_pool_forward, global_average_pool_backward, false, nullptr,
     global_average_pool_scratch},
    {"latent", 1, {}, latent_check, nullptr, nullptr, false, nullptr, nullptr},
    {"depthwise_convolution", 1, {kWeight}, depthwise_convolution_check, depthwise_convolution_forward,
     depthwise_convolution_backward, true, nullptr, depthwise_convolution_scratch},
    {"blur_pool", 1, {}, blur_pool_check, blur_pool_forward, blur_pool_backward, false, nullptr, blur_pool_scratch},
    {"global_max_pool", 1, {}, global_max_pool_check, global_max_pool_forward, global_max_pool_backward, false, max_pool_saved,
     max_pool_scratch},
    {"clamp", 1, {}, clamp_check, clamp_forward, clamp_backward, true, nullptr, clamp_scratch},
    {"concat", 2, {}, concat_check, concat_forward, concat_backward, false, nullptr, concat_scratch},
    {"flatten", 1, {}, flatten_check, flatten_forward, flatten_backward, false, nullptr, flatten_scratch},
};
static_assert(sizeof kLayers / sizeof kLayers[0] == static_cast<size_t>(Operation::kCount), "one row a layer");

}  // namespace

const LayerKind& layer_kind(Operation operation) { return kLayers[static_cast<int>(operation)]; }

size_t activation_bytes(const TensorRecord& tensor, int32_t batch) {
  const size_t pixels = static_cast<size_t>(batch) * static_cast<size_t>(tensor.pixels());
  if (tensor.bits == 1) return pixels * static_cast<size_t>(words_for(tensor.channels)) * sizeof(uint64_t);
  return pixels * static_cast<size_t>(tensor.channels) * static_cast<size_t>(tensor.bits / 8);
}

namespace {

template <typename Sum>
constexpr bool kShort = sizeof(Sum) == sizeof(int32_t);  // sums of gradients of 8 and 16 bits, which have loops

template <typename T, typename Sum>
void quantize_into(Gradient& gradient, const Sum* sums, size_t count, int32_t exponent, int shift, int q_b, int threads) {
  if constexpr (kShort<Sum> && sizeof(T) < sizeof(int32_t)) {
    narrow_loop({sums, count, shift, q_b, gradient.values}, threads);
  } else {
    T* values = static_cast<T*>(gradient.values);
    parallel_for(threads, static_cast<int64_t>(count), kElementGrain, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) values[i] = static_cast<T>(saturate_symmetric(rounding_shift(sums[i], shift), q_b));
    });
  }
  gradient.exponent = exponent + shift;
  gradient.present = true;
}

template <typename Sum>
int quantizing_shift(const Sum* sums, size_t count, int q_b, int threads) {
  uint64_t all = 0;  // the OR of all magnitudes has the length of the largest
  if constexpr (kShort<Sum>) {
    all = magnitude_loop(sums, count, threads);
  } else {
    uint32_t high = 0, low = 0;
    parallel_for(threads, static_cast<int64_t>(count), kElementGrain, [&](int64_t first, int64_t last, int) {
      uint64_t part = 0;
      for (int64_t i = first; i < last; ++i) {
        const int64_t v = sums[i];
        part |= v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
      }
      join_or(high, static_cast<uint32_t>(part >> 32));
      join_or(low, static_cast<uint32_t>(part));
    });
    all = uint64_t{high} << 32 | low;
  }
  const int length = all == 0 ? 0 : 64 - __builtin_clzll(all);
  return length > q_b - 1 ? length - (q_b - 1) : 0;
}

// To nothing at 31 and beyond, for values of 16 bits.
int32_t at_most_31(int32_t shift) { return shift > 31 ? 31 : shift; }

}  // namespace

template <typename Sum>
void write_gradient(Gradient& gradient, Sum* sums, size_t count, int32_t exponent, int q_b, int threads) {
  with_gradient_type(q_b, [&](auto element, auto) {
    using T = decltype(element);
    int shift = quantizing_shift(sums, count, q_b, threads);
    if (gradient.present) {
      const int32_t mine = exponent + shift;
      const int32_t common = mine > gradient.exponent ? mine : gradient.exponent;
      if constexpr (kShort<Sum> && sizeof(T) < sizeof(int32_t)) {
        merge_loop({sums, gradient.values, count, q_b, shift, at_most_31(common - mine), at_most_31(common - gradient.exponent)}, threads);
      } else {
        const T* before = static_cast<const T*>(gradient.values);
        parallel_for(threads, static_cast<int64_t>(count), kElementGrain, [&](int64_t first, int64_t last, int) {
          for (int64_t i = first; i < last; ++i) {
            const int64_t quantized = saturate_symmetric(rounding_shift(sums[i], shift), q_b);
            sums[i] = static_cast<Sum>(rounding_shift(before[i], common - gradient.exponent) + rounding_shift(quantized, common - mine));
          }
        });
      }
      exponent = common;
      shift = quantizing_shift(sums, count, q_b, threads);
    }
    quantize_into<T>(gradient, sums, count, exponent, shift, q_b, threads);
  });
}

template void write_gradient(Gradient&, int32_t*, size_t, int32_t, int, int);
template void write_gradient(Gradient&, int64_t*, size_t, int32_t, int, int);

template <typename Sum>
void write_input_gradient(const Context& context, int k, Sum* sums, int32_t exponent) {
  const size_t count = static_cast<size_t>(context.batch) * static_cast<size_t>(context.input(k).elements());
  write_gradient(context.gradients[context.layer.inputs[k]], sums, count, exponent, context.widths.non_binary, context.threads);
}

template void write_input_gradient(const Context&, int, int32_t*, int32_t);
template void write_input_gradient(const Context&, int, int64_t*, int32_t);

template <typename Sum>
uint64_t update_parameters(Parameter& p, int32_t first, int32_t count, const Sum* sums, Scale step, int32_t exponent) {
  if constexpr (sizeof(Sum) == sizeof(int32_t)) {
    if (p.width >= 8) {
      const Scale by = shifted(step, exponent - p.range_exponent + p.width - 1);
      return update_loop({element_at(p.values, first, p.width), p.width, sums, count, by, p.rounding, first});
    }
  } else {
    int32_t narrow[64];
    bool fits = true;
    for (int32_t i = 0; i < count; ++i) {
      narrow[i] = static_cast<int32_t>(sums[i]);
      fits = fits && narrow[i] == sums[i];
    }
    if (fits) return update_parameters(p, first, count, narrow, step, exponent);
  }
  uint64_t bits = 0;
  for (int32_t i = 0; i < count; ++i) {
    update_parameter(p, first + i, sums[i], step, exponent);
    bits |= static_cast<uint64_t>(p.get(first + i) >= 0) << i;
  }
  return bits;
}

template uint64_t update_parameters(Parameter&, int32_t, int32_t, const int32_t*, Scale, int32_t);
template uint64_t update_parameters(Parameter&, int32_t, int32_t, const int64_t*, Scale, int32_t);

}  // namespace everbit
