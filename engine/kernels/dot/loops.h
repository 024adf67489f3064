// The loops, compiled once for every instruction set: multiplying 16-bit numbers into 32-bit sums is one instruction of each.
#pragma once

#include "../../number_types.h"
#include "dot.h"

namespace everbit {
namespace {

constexpr int32_t kTerms = 128;

template <typename W, typename X>
int64_t product(const DotCall& call) {
  const W* w = static_cast<const W*>(call.w);
  const X* x = static_cast<const X*>(call.x);
  int64_t total = 0;
  if constexpr (sizeof(X) == 1) {
    const int16_t zero_point = static_cast<int16_t>(call.zero_point);
    for (int32_t first = 0; first < call.count; first += kTerms) {
      const int32_t last = call.count - first < kTerms ? call.count : first + kTerms;
      int32_t sum = 0;
      for (int32_t k = first; k < last; ++k) sum += int16_t{w[k]} * static_cast<int16_t>(x[k] - zero_point);
      total += sum;
    }
    return total;
  } else {
    int64_t weights = 0;
    for (int32_t k = 0; k < call.count; ++k) {
      total += w[k] * x[k];
      weights += w[k];
    }
    return total - weights * call.zero_point;
  }
}

inline int64_t by_types(const DotCall& call) {
  int64_t result = 0;
  with_short_type(call.w_bits, [&](auto w) {
    with_short_type(call.x_bits, [&](auto x) { result = product<decltype(w), decltype(x)>(call); });
  });
  return result;
}

}  // namespace
}  // namespace everbit
