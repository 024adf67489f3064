// The loops themselves. Included by one file an instruction set, which defines EVERBIT_ISA_NAME; see elementwise.h.
#include <cstdint>

#include "../../bits.h"
#include "../../number_types.h"
#include "elementwise.h"

namespace everbit {
namespace EVERBIT_ISA_NAME {

// The rounding of rounding_shift32() without a branch, so that a vector may shift each lane by its own amount.
inline int32_t rounded(int32_t v, int32_t shift) {
  const int32_t half = (int32_t{1} << shift) >> 1;
  const int32_t down = (v >> 31) & -static_cast<int32_t>(shift > 0);
  return (v + half + down) >> shift;
}

template <typename T>
inline T clamped(int32_t v) {
  constexpr int32_t top = (int32_t{1} << (8 * sizeof(T) - 1)) - 1;
  const int32_t low = v < -top - 1 ? -top - 1 : v;
  return static_cast<T>(low > top ? top : low);
}

template <typename X, typename Y>
void affine_typed(const AffineCall& call) {
  const X* __restrict x = static_cast<const X*>(call.x);
  Y* __restrict y = static_cast<Y*>(call.y);
  const int16_t* __restrict A = call.A;
  const int32_t* __restrict B = call.B;
  const uint8_t* __restrict s = call.s;
  // Copies: a store of bytes may change anything the compiler only knows by reference.
  const int32_t pixels = call.pixels, channels = call.channels, zero_point = call.zero_point;
  for (int32_t p = 0; p < pixels; ++p, x += channels, y += channels) {
    for (int32_t c = 0; c < channels; ++c) y[c] = clamped<Y>(zero_point + rounded(int32_t{x[c]} * A[c] + B[c], s[c]));
  }
}

template <typename X0, typename X1, typename Y>
void add_typed(const AddCall& call) {
  const X0* __restrict x0 = static_cast<const X0*>(call.x0);
  const X1* __restrict x1 = static_cast<const X1*>(call.x1);
  Y* __restrict y = static_cast<Y*>(call.y);
  const int32_t count = call.count, A0 = call.A0, A1 = call.A1, B = call.B, s = call.s, zero_point = call.zero_point;
  for (int32_t i = 0; i < count; ++i) y[i] = clamped<Y>(zero_point + rounded(x0[i] * A0 + x1[i] * A1 + B, s));
}

template <typename Y>
inline Y narrowed(int64_t v) {
  constexpr int64_t top = (int64_t{1} << (8 * sizeof(Y) - 1)) - 1;
  return static_cast<Y>(v > top ? top : v < -top - 1 ? -top - 1 : v);
}

// Word by word of the channels, whose thresholds are narrowed to the type of x first: one beyond its range is never reached.
template <typename X>
void sign_typed(const SignCall& call) {
  const int32_t words = words_for(call.channels);
  for (int32_t w = 0; w < words; ++w) {
    const int32_t first = w * 64;
    const int32_t count = call.channels - first < 64 ? call.channels - first : 64;
    X threshold[64] = {};
    uint8_t reached[64] = {};
    for (int32_t i = 0; i < count; ++i) {
      const int32_t wanted = call.threshold[first + i];
      threshold[i] = narrowed<X>(wanted);
      reached[i] = wanted <= threshold[i];
    }
    const X* x = static_cast<const X*>(call.x) + first;
    uint64_t* to = call.words + w;
    for (int32_t p = 0; p < call.pixels; ++p, x += call.channels, to += words) {
      uint8_t bit[64] = {};
      if (count == 64) {
        for (int32_t i = 0; i < 64; ++i) bit[i] = static_cast<uint8_t>(x[i] >= threshold[i]) & reached[i];
      } else {
        for (int32_t i = 0; i < count; ++i) bit[i] = static_cast<uint8_t>(x[i] >= threshold[i]) & reached[i];
      }
      *to = packed(bit);
    }
  }
}

// A scaled value around the zero point.
template <typename Y>
inline Y placed(int32_t scaled, int32_t zero_point) {
  if constexpr (sizeof(Y) == sizeof(int32_t)) {
    return narrowed<Y>(int64_t{zero_point} + scaled);
  } else {
    constexpr int32_t far = 1 << 20;  // beyond any 16-bit value and zero point, so that 32 bits hold the sum
    return clamped<Y>(zero_point + (scaled > far ? far : scaled < -far ? -far : scaled));
  }
}

// Whether a row's sums fit int32.
inline bool short_sums(const int64_t* __restrict sums, const int64_t* __restrict offset, int32_t channels) {
  uint64_t all = 0;
  for (int32_t c = 0; c < channels; ++c) {
    const int64_t v = sums[c] + offset[c];
    all |= static_cast<uint64_t>(v ^ (v >> 63));
  }
  return all <= INT32_MAX;
}

template <typename Y, bool kOneMultiplier>
void requantize_typed(const RequantizeCall& call) {
  const int64_t* __restrict sums = call.sums;
  Y* __restrict y = static_cast<Y*>(call.y);
  const int64_t* __restrict offset = call.offset;
  const int32_t* __restrict mantissa = call.mantissa;
  const int8_t* __restrict exponent = call.exponent;
  const int32_t pixels = call.pixels, channels = call.channels, zero_point = call.zero_point;
  bool ordinary = true;
  for (int32_t c = 0; c < (kOneMultiplier ? 1 : channels); ++c) ordinary = ordinary && exponent[c] <= 0 && exponent[c] >= -31;
  for (int32_t p = 0; p < pixels; ++p, sums += channels, y += channels) {
    if (ordinary && short_sums(sums, offset, channels)) {
      for (int32_t c = 0; c < channels; ++c) {
        const int32_t by = kOneMultiplier ? 0 : c;
        y[c] = placed<Y>(scale32(static_cast<int32_t>(sums[c] + offset[c]), mantissa[by], -exponent[by]), zero_point);
      }
    } else {
      for (int32_t c = 0; c < channels; ++c) {
        const int32_t by = kOneMultiplier ? 0 : c;
        y[c] = narrowed<Y>(zero_point + int64_t{scale(sums[c] + offset[c], {mantissa[by], exponent[by]})});
      }
    }
  }
}

template <typename X, typename Y>
void norm_typed(const NormCall& call) {
  const X* __restrict x = static_cast<const X*>(call.affine.x);
  Y* __restrict y = static_cast<Y*>(call.affine.y);
  const int16_t* __restrict A = call.affine.A;
  const int32_t* __restrict B = call.affine.B;
  const uint8_t* __restrict s = call.affine.s;
  const int32_t* __restrict gamma = call.gamma;
  const int32_t* __restrict beta = call.beta;
  int16_t* __restrict xhat = call.xhat;
  const int32_t pixels = call.affine.pixels, channels = call.affine.channels, zero_point = call.affine.zero_point;
  const bool ordinary = call.output.exponent <= 0 && call.output.exponent >= -31;
  const int32_t mantissa = call.output.mantissa;
  const int32_t shift = ordinary ? -call.output.exponent : 0;
  const auto normalized = [&](int32_t c, int32_t q) {
    const int32_t xhat16 = clamped<int16_t>(rounded(q * A[c] + B[c], s[c]));
    // gamma * xhat is below 2^30: the sum leaves 32 bits only where beta is large, and then saturates.
    return saturating_sum(gamma[c] * xhat16, beta[c]);
  };
  for (int32_t p = 0; p < pixels; ++p, x += channels, y += channels) {
    if (xhat != nullptr) {
      for (int32_t c = 0; c < channels; ++c) xhat[c] = clamped<int16_t>(rounded(int32_t{x[c]} * A[c] + B[c], s[c]));
      xhat += channels;
    }
    if (ordinary) {
      for (int32_t c = 0; c < channels; ++c) y[c] = placed<Y>(scale32(normalized(c, x[c]), mantissa, shift), zero_point);
    } else {
      for (int32_t c = 0; c < channels; ++c) y[c] = narrowed<Y>(zero_point + int64_t{scale(normalized(c, x[c]), call.output)});
    }
  }
}

template <typename X, typename Y>
void prelu_typed(const PreluCall& call) {
  const X* __restrict x = static_cast<const X*>(call.x);
  Y* __restrict y = static_cast<Y*>(call.y);
  const int32_t* __restrict pre = call.pre;
  const int32_t* __restrict slope = call.slope;
  const int32_t* __restrict post = call.post;
  const int32_t pixels = call.pixels, channels = call.channels, x_zero_point = call.x_zero_point, y_zero_point = call.y_zero_point;
  const int32_t slope_shift = call.slope_shift, mantissa = call.output.mantissa, shift = -call.output.exponent;
  const int64_t half = (int64_t{1} << slope_shift) >> 1;
  const int64_t down = slope_shift > 0 ? -1 : 0;
  const Scale to_real = call.to_real;
  for (int32_t p = 0; p < pixels; ++p, x += channels, y += channels) {
    for (int32_t c = 0; c < channels; ++c) {
      const int32_t u = saturating_sum(scale17(x[c] - x_zero_point, to_real), pre[c]);
      const int64_t product = int64_t{slope[c]} * u;
      const int64_t bent = (product + half + ((product >> 63) & down)) >> slope_shift;
      const int32_t v = u > 0 ? u : static_cast<int32_t>(bent > INT32_MAX ? INT32_MAX : bent < INT32_MIN ? INT32_MIN : bent);
      y[c] = placed<Y>(scale32(saturating_sum(v, post[c]), mantissa, shift), y_zero_point);
    }
  }
}

void maximum(const MaximumCall& call) {
  with_activation_type(call.bits, [&](auto type) {
    using T = decltype(type);
    const T* __restrict x = static_cast<const T*>(call.x);
    T* __restrict y = static_cast<T*>(call.y);
    const int32_t count = call.count;
    for (int32_t i = 0; i < count; ++i) y[i] = x[i] > y[i] ? x[i] : y[i];
  });
}

void shift(const ShiftCall& call) {
  with_short_type(call.bits, [&](auto type) {
    using T = decltype(type);
    const int32_t* __restrict sums = call.sums;
    T* __restrict y = static_cast<T*>(call.y);
    const int32_t count = call.count, shift = call.shift, zero_point = call.zero_point;
    for (int32_t i = 0; i < count; ++i) y[i] = clamped<T>(zero_point + rounded(sums[i], shift));
  });
}

void image(const ImageCall& call) {
  const uint8_t* __restrict u = call.u;
  int16_t* __restrict y = call.y;
  const int32_t count = call.count, offset = call.offset;
  for (int32_t i = 0; i < count; ++i) y[i] = clamped<int16_t>(2 * u[i] - offset);
}

void weights(const WeightsCall& call) {
  with_activation_type(call.width, [&](auto type) {
    constexpr int32_t kShift = 8 * static_cast<int32_t>(sizeof(type)) - 8;
    const auto* __restrict p = static_cast<const decltype(type)*>(call.p);
    int8_t* __restrict to = call.to;
    for (int64_t i = 0; i < call.count; ++i) {
      const int32_t moved = sizeof(type) == sizeof(int32_t) ? static_cast<int32_t>(rounding_shift(p[i], kShift)) : rounded(p[i], kShift);
      to[i] = static_cast<int8_t>(moved > INT8_MAX ? INT8_MAX : moved < -INT8_MAX ? -INT8_MAX : moved);
    }
  });
}

void weight_sums(WeightSumsCall& call) {
  const int8_t* __restrict w = call.w;
  int32_t sum = 0;
  uint32_t magnitude = 0;
  for (int32_t i = 0; i < call.count; ++i) {
    const int32_t value = w[i];
    sum += value;
    magnitude += static_cast<uint32_t>(value < 0 ? -value : value);
  }
  call.sum = sum;
  call.magnitude = magnitude;
}

void affine(const AffineCall& call) {
  with_short_type(call.x_bits,
                  [&](auto x) { with_short_type(call.y_bits, [&](auto y) { affine_typed<decltype(x), decltype(y)>(call); }); });
}

void add(const AddCall& call) {
  with_short_type(call.x0_bits, [&](auto x0) {
    with_short_type(call.x1_bits, [&](auto x1) {
      with_short_type(call.y_bits, [&](auto y) { add_typed<decltype(x0), decltype(x1), decltype(y)>(call); });
    });
  });
}

void sign(const SignCall& call) {
  with_activation_type(call.x_bits, [&](auto x) { sign_typed<decltype(x)>(call); });
}

void norm(const NormCall& call) {
  with_short_type(call.affine.x_bits,
          [&](auto x) { with_activation_type(call.affine.y_bits, [&](auto y) { norm_typed<decltype(x), decltype(y)>(call); }); });
}

void prelu(const PreluCall& call) {
  with_short_type(call.x_bits,
                  [&](auto x) { with_activation_type(call.y_bits, [&](auto y) { prelu_typed<decltype(x), decltype(y)>(call); }); });
}

void requantize(const RequantizeCall& call) {
  with_activation_type(call.y_bits, [&](auto y) {
    if (call.one_multiplier) {
      requantize_typed<decltype(y), true>(call);
    } else {
      requantize_typed<decltype(y), false>(call);
    }
  });
}

}  // namespace EVERBIT_ISA_NAME
}  // namespace everbit
