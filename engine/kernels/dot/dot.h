// The product of a row of weights with one of values: sum over k of w[k] (x[k] - zero_point), exact in int64.
//
// w and x: count numbers of 8 or 16 bits each. Bound: a term of 8-bit values is below 2^24, so that int32
// holds 128 of them; 16-bit values sum in int64.
#pragma once

#include <cstdint>

namespace everbit {

struct DotCall {
  const void* w;
  int32_t w_bits;
  const void* x;
  int32_t x_bits;
  int32_t count;
  int32_t zero_point;
};

using Dot = int64_t(const DotCall&);

Dot dot_scalar;
Dot dot_avx2;
Dot dot_avx512;
Dot dot_neon;
Dot dot_dsp;

// The fastest kernel of the active instruction set.
Dot dot;

}  // namespace everbit
