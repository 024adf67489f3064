// rshift(q * A + B, s): the folded batch norm. Between tensors of 8 and 16 bits: |q|, |A| <= 2^15, |B| <= 2^29, s <= 29, so that the sum
// and its rounding stay below 2^31. Where one of the two has 32 bits: |q|, |A| <= 2^31, |B| <= 2^61, s <= 61, below 2^63.
#pragma once

#include "layer.h"

namespace everbit {

struct AffineConstants {
  const int16_t* A;
  const int32_t* B;
  const uint8_t* s;
};

inline AffineConstants affine_constants(const Program& program, const LayerRecord& layer) {
  return {program.array<int16_t>(layer, 0), program.array<int32_t>(layer, 1), program.array<uint8_t>(layer, 2)};
}

// nullptr, or what is wrong with the arrays A, B, s of a layer of `channels`.
const char* affine_constants_check(const Program&, const LayerRecord&, int32_t channels);

constexpr int32_t kMaxAffineOffset = int32_t{1} << 29;
constexpr int kMaxAffineShift = 29;
constexpr int64_t kMaxWideOffset = int64_t{1} << 61;
constexpr int kMaxWideShift = 61;
constexpr int32_t kMaxWideFactor = (int32_t{1} << 30) - 1;  // of values that have zero points to be taken off

}  // namespace everbit
