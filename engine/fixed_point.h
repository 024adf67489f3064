// The arithmetic rules of docs/arithmetic.md, section 1, once.
//
// Every function is exact and total: it has one right answer for every input, saturates instead of wrapping, and uses integers only.
// All are static: kernels compiled for one instruction set include this header too, and the linker must never hand their copy of a
// function to code that runs on every processor.
#pragma once

#include <cstdint>

namespace everbit {

// Bits of |v|; 0 for 0. The magnitude is taken unsigned, so the most negative value is safe.
static inline int bit_length(int64_t v) {
  const uint64_t magnitude = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  return magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude);
}

// Rounding right shift, half away from zero. shift >= 0; at 63 and beyond the result is 0.
static inline int64_t rounding_shift(int64_t v, int shift) {
  if (shift == 0) return v;
  if (shift > 62) return 0;
  const uint64_t magnitude = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  const int64_t rounded = static_cast<int64_t>((magnitude + (uint64_t{1} << (shift - 1))) >> shift);
  return v < 0 ? -rounded : rounded;
}

// The same for int32 values whose sum with half a unit fits int32 (the caller states why).
static inline int32_t rounding_shift32(int32_t v, int shift) {
  if (shift == 0) return v;
  return (v + (int32_t{1} << (shift - 1)) - (v < 0)) >> shift;
}

// Clamp to [-2^(bits-1), 2^(bits-1) - 1].
static inline int32_t saturate(int64_t v, int bits) {
  const int64_t top = (int64_t{1} << (bits - 1)) - 1;
  return static_cast<int32_t>(v > top ? top : v < -top - 1 ? -top - 1 : v);
}

// Clamp to [-(2^(bits-1) - 1), 2^(bits-1) - 1].
static inline int32_t saturate_symmetric(int64_t v, int bits) {
  const int64_t top = (int64_t{1} << (bits - 1)) - 1;
  return static_cast<int32_t>(v > top ? top : v < -top ? -top : v);
}

// v * 2^shift for shift >= 0, else a rounding right shift; the product saturates at 63 bits.
static inline int64_t shift_either_way(int64_t v, int shift) {
  if (shift < 0) return rounding_shift(v, -shift);
  if (v == 0) return 0;
  if (bit_length(v) + shift > 62) return v > 0 ? INT64_MAX : INT64_MIN + 1;
  return v * (int64_t{1} << shift);
}

// Division rounding half away from zero; divisor > 0.
static inline int64_t rounding_divide(int64_t v, int64_t divisor) {
  const uint64_t magnitude = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  const uint64_t d = static_cast<uint64_t>(divisor);
  const int64_t quotient = static_cast<int64_t>(magnitude / d + (magnitude % d >= d - magnitude % d ? 1 : 0));
  return v < 0 ? -quotient : quotient;
}

// Saturating rounding doubling high multiply (gemmlowp's name): a * b / 2^31.
static inline int32_t high_multiply(int32_t a, int32_t b) {
  return saturate(rounding_shift(static_cast<int64_t>(a) * b, 31), 32);
}

// The real number mantissa / 2^31 * 2^exponent; the mantissa is normalised (2^30 <= |m| < 2^31) or zero.
struct Scale {
  int32_t mantissa;
  int32_t exponent;
};

// s * 2^by.
static inline Scale shifted(Scale s, int32_t by) { return {s.mantissa, s.exponent + by}; }

static inline Scale operator*(Scale a, Scale b) {
  int32_t mantissa = high_multiply(a.mantissa, b.mantissa);
  int32_t exponent = a.exponent + b.exponent;
  if (mantissa < (int32_t{1} << 30) && mantissa > -(int32_t{1} << 30)) {
    mantissa *= 2;
    exponent -= 1;
  }
  return {mantissa, exponent};
}

// The Scale of 1 / n, n >= 1.
static inline Scale reciprocal(uint32_t n) {
  const int bits = bit_length(n);
  const uint64_t mantissa = ((uint64_t{1} << (30 + bits)) + n / 2) / n;
  if (mantissa >= uint64_t{1} << 31) return {int32_t{1} << 30, 2 - bits};
  return {static_cast<int32_t>(mantissa), 1 - bits};
}

// A value brought to 32 bits to be multiplied by a Scale: v = value * 2^narrowed.
struct Multiplicand {
  int32_t value;
  int narrowed;
};

// Narrows v where it is wider than 32 bits, widens it by no more than the positive exponent where it is shorter, so that no low bit is
// lost to a product that is shifted up afterwards.
static inline Multiplicand multiplicand(int64_t v, int32_t exponent) {
  const uint64_t size = static_cast<uint64_t>(v < 0 ? ~v : v);
  int narrowed = (size == 0 ? 0 : 64 - __builtin_clzll(size)) - 31;
  const int most_widened = exponent > 0 ? exponent : 0;
  if (narrowed < -most_widened) narrowed = -most_widened;
  v = narrowed <= 0 ? static_cast<int64_t>(static_cast<uint64_t>(v) << -narrowed) : saturate(rounding_shift(v, narrowed), 32);
  return {static_cast<int32_t>(v), narrowed};
}

// v times a Scale, rounded and saturated to int32.
static inline int32_t scale(int64_t v, Scale by) {
  const Multiplicand w = multiplicand(v, by.exponent);
  const int32_t product = high_multiply(w.value, by.mantissa);
  const int shift = by.exponent + w.narrowed;
  if (shift >= 0) return saturate(shift_either_way(product, shift), 32);
  return static_cast<int32_t>(rounding_shift(product, -shift));
}

// scale() of a 32-bit value where the exponent is -shift, 0 <= shift <= 31: the same result without a branch, for loops over vectors.
static inline int32_t scale32(int32_t v, int32_t mantissa, int32_t shift) {
  const int64_t product = int64_t{v} * mantissa;
  const int32_t high = static_cast<int32_t>((product + (int64_t{1} << 30) + (product >> 63)) >> 31);
  const int32_t negative = high >> 31;
  const uint32_t half = (uint32_t{1} << shift) >> 1;
  const uint32_t rounded = (static_cast<uint32_t>((high ^ negative) - negative) + half) >> shift;
  return (static_cast<int32_t>(rounded) ^ negative) - negative;
}

// scale() of a value of at most 17 bits where the exponent is from -31 to 14, which are ordinary(): the same result without a branch.
static inline bool ordinary(Scale by) { return by.exponent >= -31 && by.exponent <= 14; }

static inline int32_t scale17(int32_t v, Scale by) {
  const int32_t up = by.exponent > 0 ? by.exponent : 0;
  return scale32(v * (int32_t{1} << up), by.mantissa, up - by.exponent);
}

static inline int32_t saturating_sum(int32_t a, int32_t b) {
  const int64_t sum = int64_t{a} + b;
  return static_cast<int32_t>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
}

// How `drop` bits leave a magnitude below 2^62 at random: away from zero with the probability of what is dropped (to 32 bits of it).
struct RandomDrop {
  int first;   // bits cut off before, where there are more than 62
  int second;  // 1 .. 62 bits dropped at random
};

static inline RandomDrop random_drop(int drop) {
  return drop <= 62 ? RandomDrop{0, drop} : RandomDrop{drop - 62 > 63 ? 63 : drop - 62, 62};
}

static inline uint64_t drop_randomly(uint64_t magnitude, RandomDrop drop, uint32_t draw) {
  const uint64_t added = drop.second > 32 ? uint64_t{draw} << (drop.second - 32) : uint64_t{draw} >> (32 - drop.second);
  return ((magnitude >> drop.first) + added) >> drop.second;
}

// The same product, its last rounding at random: with a uniform 32-bit draw, the mean of the result is v times the Scale.
static inline int32_t scale_randomly(int64_t v, Scale by, uint32_t draw) {
  const Multiplicand w = multiplicand(v, by.exponent);
  const int64_t product = static_cast<int64_t>(w.value) * by.mantissa;
  const int drop = 31 - by.exponent - w.narrowed;
  if (drop <= 0) return saturate(shift_either_way(product, -drop), 32);
  const int64_t kept = static_cast<int64_t>(drop_randomly(static_cast<uint64_t>(product < 0 ? -product : product), random_drop(drop), draw));
  return saturate(product < 0 ? -kept : kept, 32);
}

// A gradient times an activation without its zero point. 32-bit activations, which have none, leave kProductShift bits behind, so that 2^17
// products of 32 by 32 bits fit int64; the exponent of a sum of products grows by product_shift() of the tensor's bits.
constexpr int kProductShift = 16;

static inline int product_shift(int32_t bits) { return bits == 32 ? kProductShift : 0; }

template <typename T>
static inline int64_t gradient_product(int64_t gradient, T value, int32_t zero_point) {
  if constexpr (sizeof(T) == sizeof(int32_t)) return rounding_shift(gradient * value, kProductShift);
  return gradient * (value - zero_point);
}

// Integer square root, rounded down: the largest r with r * r <= v.
static inline uint32_t integer_sqrt(uint64_t v) {
  uint64_t root = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint64_t trial = root | (uint64_t{1} << bit);
    if (trial * trial <= v) root = trial;
  }
  return static_cast<uint32_t>(root);
}

// 2^(t / 65536) for t <= 0, in units of 2^-30. A minimax quintic of 2^x on [0, 1); exact at whole powers, error below 1.4e-7.
static inline uint32_t exp2_fixed(int64_t t) {
  constexpr int64_t kExp2[6] = {1073741824, 744267345, 257856010, 59974165, 9607579, 2036725};
  const int64_t whole = -(t >> 16);
  if (whole > 31) return 0;
  const int64_t fraction = t & 65535;
  int64_t y = kExp2[5];
  for (int i = 4; i >= 0; --i) y = kExp2[i] + ((y * fraction) >> 16);
  return static_cast<uint32_t>(y >> whole);
}

}  // namespace everbit
