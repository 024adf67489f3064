// The loops themselves. Included by one file an instruction set, which defines EVERBIT_ISA_NAME; see gradient.h.
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

template <typename T>
uint64_t update_typed(const UpdateCall& call) {
  T* __restrict weights = static_cast<T*>(call.weights);
  const int32_t* __restrict sums = call.sums;
  const int32_t count = call.count;
  constexpr int64_t top = (int64_t{1} << (8 * sizeof(T) - 1)) - 1;
  const int32_t exponent = call.by.exponent;
  if (exponent > 0) {  // steps larger than the sums: rare, no need for speed
    for (int32_t i = 0; i < count; ++i) {
      weights[i] = static_cast<T>(saturate_symmetric(int64_t{weights[i]} - scale(sums[i], call.by), 8 * sizeof(T)));
    }
  } else if (exponent >= -31) {
    const int64_t mantissa = call.by.mantissa;
    const int64_t shift = -exponent;
    const int64_t half = (int64_t{1} << shift) >> 1;
    const int64_t rounds = -static_cast<int64_t>(shift > 0);
    for (int32_t i = 0; i < count; ++i) {
      const int64_t product = sums[i] * mantissa;
      const int64_t high = (product + (int64_t{1} << 30) + (product >> 63)) >> 31;
      const int64_t step = (high + half + ((high >> 63) & rounds)) >> shift;
      const int64_t moved = weights[i] - step;
      weights[i] = static_cast<T>(moved > top ? top : moved < -top ? -top : moved);
    }
  }
  uint64_t bits = 0;
  for (int32_t i = 0; i < count; ++i) bits |= static_cast<uint64_t>(weights[i] >= 0) << i;
  return bits;
}

uint64_t update(const UpdateCall& call) { return call.width == 8 ? update_typed<int8_t>(call) : update_typed<int16_t>(call); }

}  // namespace EVERBIT_ISA_NAME
}  // namespace everbit
