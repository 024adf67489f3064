// The loop of every instruction set without a kernel by hand.
#pragma once

#include "../../fixed_point.h"
#include "../../number_types.h"
#include "requantize.h"

namespace everbit {
namespace {

template <typename Y>
void rows(const ShortRequantizeCall& call) {
  constexpr int32_t top = (int32_t{1} << (8 * sizeof(Y) - 1)) - 1;
  constexpr int32_t far = 1 << 20;  // beyond any 16-bit value and zero point, so that 32 bits hold the sum
  for (int32_t p = 0; p < call.pixels; ++p) {
    const int32_t* __restrict sums = call.sums + int64_t{p} * call.channels;
    Y* __restrict y = static_cast<Y*>(call.y) + int64_t{p} * call.channels;
    for (int32_t c = 0; c < call.channels; ++c) {
      const int32_t by = call.one_multiplier ? 0 : c;
      const int32_t scaled = scale32(sums[c] + call.offset[c], call.mantissa[by], -call.exponent[by]);
      const int32_t v = call.zero_point + (scaled > far ? far : scaled < -far ? -far : scaled);
      y[c] = static_cast<Y>(v > top ? top : v < -top - 1 ? -top - 1 : v);
    }
  }
}

inline void by_type(const ShortRequantizeCall& call) {
  with_short_type(call.bits, [&](auto type) { rows<decltype(type)>(call); });
}

}  // namespace
}  // namespace everbit
