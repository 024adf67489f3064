// Loops of the backward pass: quantizing gradients, updates of latent weights (docs/arithmetic.md, section 4).
//
// Written once in loops.h and compiled once for every instruction set, like kernels/elementwise. They take the ordinary case, 32-bit sums;
// what is wider goes through fixed_point.h, with the same result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../fixed_point.h"
#include "../../random.h"

namespace everbit {

// The OR of all magnitudes: it is as long as the longest.
uint32_t magnitude_loop(const int32_t* sums, size_t count);

// values[i] = sats(rshift(sums[i], shift), bits), bits 8 or 16, shift 0 to 31.
struct NarrowCall {
  const int32_t* sums;
  size_t count;
  int32_t shift;
  int32_t bits;
  void* values;
};
void narrow_loop(const NarrowCall&);

// W[i] = sats(W[i] - scale(sums[i], by), width) for latent weights of 8, 16 or 32 bits; bit i of the result is [W[i] >= 0]. count <= 64.
// Where the rounding is stochastic, scale_randomly() with the draw of element first + i.
struct UpdateCall {
  void* weights;
  int32_t width;
  const int32_t* sums;
  int32_t count;
  Scale by;
  Rounding rounding;
  int32_t first;
};
uint64_t update_loop(const UpdateCall&);

}  // namespace everbit
