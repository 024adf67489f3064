// The loops themselves. Included by one file an instruction set, which defines EVERBIT_ISA_NAME; see gradient.h.
#include <type_traits>

#include "../../bits.h"
#include "../../number_types.h"
#include "gradient.h"

namespace everbit {
namespace EVERBIT_ISA_NAME {

uint32_t magnitude(const int32_t* sums, size_t count) {
  uint32_t all = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t v = static_cast<uint32_t>(sums[i]);
    all |= sums[i] < 0 ? 0u - v : v;
  }
  return all;
}

template <typename T>
void narrow_typed(const NarrowCall& call) {
  const int32_t* __restrict sums = call.sums;
  T* __restrict values = static_cast<T*>(call.values);
  const size_t count = call.count;
  const int32_t shift = call.shift;
  constexpr int32_t top = (int32_t{1} << (8 * sizeof(T) - 1)) - 1;
  const uint32_t half = shift > 0 ? uint32_t{1} << (shift - 1) : 0;
  for (size_t i = 0; i < count; ++i) {
    const int32_t negative = sums[i] >> 31;
    const uint32_t magnitude = (static_cast<uint32_t>(sums[i]) ^ static_cast<uint32_t>(negative)) - static_cast<uint32_t>(negative);
    const uint32_t rounded = (magnitude + half) >> shift;
    const int32_t kept = rounded > static_cast<uint32_t>(top) ? top : static_cast<int32_t>(rounded);
    values[i] = static_cast<T>((kept ^ negative) - negative);
  }
}

void narrow(const NarrowCall& call) {
  if (call.bits == 8) {
    narrow_typed<int8_t>(call);
  } else {
    narrow_typed<int16_t>(call);
  }
}

// rshift() without a branch; half a unit is added to a magnitude below 2^31.
inline int32_t rounded(int32_t v, int32_t shift) {
  const int32_t negative = v >> 31;
  const uint32_t half = (uint32_t{1} << shift) >> 1;
  const uint32_t magnitude = (static_cast<uint32_t>(v ^ negative) - static_cast<uint32_t>(negative) + half) >> shift;
  return (static_cast<int32_t>(magnitude) ^ negative) - negative;
}

void merge(const MergeCall& call) {
  with_short_type(call.bits, [&](auto type) {
    using T = decltype(type);
    int32_t* __restrict sums = call.sums;
    const T* __restrict before = static_cast<const T*>(call.before);
    const size_t count = call.count;
    const int32_t shift = call.shift, sum_shift = call.sum_shift, before_shift = call.before_shift;
    constexpr int32_t top = (int32_t{1} << (8 * sizeof(T) - 1)) - 1;
    for (size_t i = 0; i < count; ++i) {
      const int32_t mine = rounded(sums[i], shift);
      const int32_t kept = mine > top ? top : mine < -top ? -top : mine;
      sums[i] = rounded(kept, sum_shift) + rounded(before[i], before_shift);
    }
  });
}

template <bool kBias, bool kApproximate, typename X, typename G>
void estimator_typed(const EstimatorCall& call) {
  const X* __restrict x = static_cast<const X*>(call.x);
  const G* __restrict g = static_cast<const G*>(call.g);
  int32_t* __restrict sums = call.sums;
  const int32_t* __restrict bias = call.bias;
  const int32_t pixels = call.pixels, channels = call.channels, zero_point = call.zero_point;
  const Scale to_real = call.to_real;
  const uint32_t clip = static_cast<uint32_t>(call.clip);
  for (int32_t p = 0; p < pixels; ++p, x += channels, g += channels, sums += channels) {
    for (int32_t c = 0; c < channels; ++c) {
      const int32_t scaled = scale17(x[c] - zero_point, to_real);
      const int32_t u = kBias ? saturating_sum(scaled, bias[c]) : scaled;
      const uint32_t size = u < 0 ? 0 - static_cast<uint32_t>(u) : static_cast<uint32_t>(u);
      const int32_t slope = size < 65536 ? 32768 - static_cast<int32_t>(size >> 1) : 0;
      sums[c] = g[c] * (kApproximate ? slope : size <= clip);
    }
  }
}

template <bool kBias, bool kApproximate>
void estimator_of_widths(const EstimatorCall& call) {
  with_short_type(call.x_bits, [&](auto x) {
    with_short_type(call.g_bits, [&](auto g) { estimator_typed<kBias, kApproximate, decltype(x), decltype(g)>(call); });
  });
}

void estimator(const EstimatorCall& call) {
  if (call.bias != nullptr) {
    call.approximate ? estimator_of_widths<true, true>(call) : estimator_of_widths<true, false>(call);
  } else {
    call.approximate ? estimator_of_widths<false, true>(call) : estimator_of_widths<false, false>(call);
  }
}

void channel_sum(const ChannelSumCall& call) {
  const int32_t* __restrict values = call.values;
  int64_t* __restrict totals = call.totals;
  const int32_t pixels = call.pixels, channels = call.channels;
  for (int32_t p = 0; p < pixels; ++p, values += channels) {
    for (int32_t c = 0; c < channels; ++c) totals[c] += values[c];
  }
}

void norm_gradient(const NormGradientCall& call) {
  with_short_type(call.g_bits, [&](auto type) {
    const auto* __restrict g = static_cast<const decltype(type)*>(call.g);
    const int16_t* __restrict xhat = call.xhat;
    const int32_t* __restrict F = call.F;
    int32_t* __restrict sums = call.sums;
    int64_t* __restrict gamma = call.gamma;
    int64_t* __restrict beta = call.beta;
    const int32_t pixels = call.pixels, channels = call.channels;
    for (int32_t p = 0; p < pixels; ++p, g += channels, xhat += channels) {
      for (int32_t c = 0; c < channels; ++c) {
        beta[c] += g[c];
        gamma[c] += g[c] * xhat[c];
      }
      if (sums == nullptr) continue;
      for (int32_t c = 0; c < channels; ++c) sums[c] = g[c] * F[c];
      sums += channels;
    }
  });
}

template <typename X, typename G>
void prelu_gradient_typed(const PreluGradientCall& call) {
  const X* __restrict x = static_cast<const X*>(call.x);
  const G* __restrict g = static_cast<const G*>(call.g);
  const int32_t* __restrict pre = call.pre;
  const int32_t* __restrict slope = call.slope;
  int32_t* __restrict sums = call.sums;
  int64_t* __restrict pre_sums = call.pre_sums;
  int64_t* __restrict slope_sums = call.slope_sums;
  int64_t* __restrict post_sums = call.post_sums;
  const int32_t pixels = call.pixels, channels = call.channels, zero_point = call.zero_point, one = int32_t{1} << call.shift;
  const Scale to_real = call.to_real;
  constexpr int32_t kBlock = 256;  // channels; loops of one kind of sum each are what compilers turn into vectors
  int32_t below[kBlock];
  for (int32_t p = 0; p < pixels; ++p, x += channels, g += channels, sums += channels) {
    for (int32_t first = 0; first < channels; first += kBlock) {
      const int32_t end = channels - first < kBlock ? channels : first + kBlock;
      for (int32_t c = first; c < end; ++c) {
        const int32_t u = saturating_sum(scale17(x[c] - zero_point, to_real), pre[c]);
        const int32_t factor = u > 0 ? one : slope[c];
        const int32_t q = u > 0 ? 0 : rounded(u, 5);
        sums[c] = g[c] * factor;
        below[c - first] = g[c] * (q < INT16_MIN ? INT16_MIN : q);
      }
      for (int32_t c = first; c < end; ++c) slope_sums[c] += below[c - first];
      for (int32_t c = first; c < end; ++c) pre_sums[c] += sums[c];
      for (int32_t c = first; c < end; ++c) post_sums[c] += g[c];
    }
  }
}

void prelu_gradient(const PreluGradientCall& call) {
  with_short_type(call.x_bits, [&](auto x) {
    with_short_type(call.g_bits, [&](auto g) { prelu_gradient_typed<decltype(x), decltype(g)>(call); });
  });
}

template <typename T>
void update_randomly(const UpdateCall& call) {
  T* __restrict weights = static_cast<T*>(call.weights);
  const int32_t* __restrict sums = call.sums;
  const int32_t count = call.count;
  constexpr int64_t top = (int64_t{1} << (8 * sizeof(T) - 1)) - 1;
  if (call.by.exponent > 0) {  // steps larger than the sums: rare, no need for speed
    for (int32_t i = 0; i < count; ++i) {
      const int64_t step = scale_randomly(sums[i], call.by, rounding_draw(call.rounding, call.first + i));
      weights[i] = static_cast<T>(saturate_symmetric(weights[i] - step, 8 * sizeof(T)));
    }
    return;
  }
  // A 32-bit sum is its own multiplicand: 31 bits and more are dropped.
  const RandomDrop drop = random_drop(31 - call.by.exponent);
  const int64_t mantissa = call.by.mantissa;
  const uint64_t key = call.rounding.key + static_cast<uint64_t>(call.first) * kRandomIncrement;
  for (int32_t i = 0; i < count; ++i) {
    const uint32_t draw = static_cast<uint32_t>(mix64(key + static_cast<uint64_t>(i) * kRandomIncrement) >> 32);
    const int64_t product = sums[i] * mantissa;
    const int64_t negative = product >> 63;
    const int64_t kept = static_cast<int64_t>(drop_randomly(static_cast<uint64_t>((product ^ negative) - negative), drop, draw));
    const int64_t moved = weights[i] - ((kept ^ negative) - negative);
    weights[i] = static_cast<T>(moved > top ? top : moved < -top ? -top : moved);
  }
}

template <typename T>
uint64_t update_typed(const UpdateCall& call) {
  T* __restrict weights = static_cast<T*>(call.weights);
  const int32_t* __restrict sums = call.sums;
  const int32_t count = call.count;
  using Difference = std::conditional_t<sizeof(T) == sizeof(int32_t), int64_t, int32_t>;
  constexpr Difference top = (Difference{1} << (8 * sizeof(T) - 1)) - 1;
  const int32_t exponent = call.by.exponent;
  if (call.rounding.stochastic) {
    update_randomly<T>(call);
  } else if (exponent > 0) {  // steps larger than the sums: rare, no need for speed
    for (int32_t i = 0; i < count; ++i) {
      weights[i] = static_cast<T>(saturate_symmetric(int64_t{weights[i]} - scale(sums[i], call.by), 8 * sizeof(T)));
    }
  } else if (exponent >= -31) {
    const int32_t mantissa = call.by.mantissa;
    const int32_t shift = -exponent;
    for (int32_t i = 0; i < count; ++i) {
      const Difference step = scale32(sums[i], mantissa, shift);
      // No step needs to be longer than from one end to the other, and the difference shall not overflow.
      const Difference moved = weights[i] - (step > 2 * top ? 2 * top : step < -2 * top ? -2 * top : step);
      weights[i] = static_cast<T>(moved > top ? top : moved < -top ? -top : moved);
    }
  }
  uint8_t kept[64] = {};
  for (int32_t i = 0; i < count; ++i) kept[i] = weights[i] >= 0;
  return packed(kept);
}

uint64_t update(const UpdateCall& call) {
  return call.width == 8 ? update_typed<int8_t>(call) : call.width == 16 ? update_typed<int16_t>(call) : update_typed<int32_t>(call);
}

void mask(const MaskCall& call) {
  with_activation_type(call.x_bits, [&](auto type) {
    with_short_type(call.g_bits, [&](auto element) {
      const auto* __restrict x = static_cast<const decltype(type)*>(call.x);
      const auto* __restrict g = static_cast<const decltype(element)*>(call.g);
      auto* __restrict values = static_cast<decltype(element)*>(call.values);
      const int32_t low = call.low, high = call.high;
      for (int64_t i = 0; i < call.count; ++i) {
        const bool passes = (x[i] > low) & (x[i] < high);
        values[i] = passes ? g[i] : decltype(element){};
      }
    });
  });
}

}  // namespace EVERBIT_ISA_NAME
}  // namespace everbit
