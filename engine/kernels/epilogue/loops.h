// The loops of every instruction set without a kernel by hand: the compiler's vectors do the work.
#pragma once

#include "../../fixed_point.h"
#include "../../number_types.h"
#include "epilogue.h"

namespace everbit {
namespace {

// Values of one place and the constants of the columns; columns that do not exist hold zeros.
struct Columns {
  int32_t A[kEpilogueColumns] = {};
  int32_t B[kEpilogueColumns] = {};
  int32_t s[kEpilogueColumns] = {};
  int32_t threshold[kEpilogueColumns] = {};

  explicit Columns(const EpilogueCall& call) {
    for (int32_t c = 0; c < call.columns; ++c) {
      if (call.A != nullptr) {
        A[c] = call.A[c];
        B[c] = call.B[c];
        s[c] = call.s[c];
      }
      if (call.threshold != nullptr) threshold[c] = call.threshold[c];
    }
  }
};

inline int32_t bounded(int32_t v, int32_t low, int32_t high) {
  const int32_t above = v < low ? low : v;
  return above > high ? high : above;
}

// rounding_shift32() without a branch, so that a vector may shift each lane by its own amount.
inline int32_t rounded(int32_t v, int32_t shift) {
  const int32_t half = (int32_t{1} << shift) >> 1;
  const int32_t down = (v >> 31) & -static_cast<int32_t>(shift > 0);
  return (v + half + down) >> shift;
}

template <typename Sum, typename T>
void places(const EpilogueCall& call) {
  constexpr int32_t top = (int32_t{1} << (8 * sizeof(T) - 1)) - 1;
  const Columns constants(call);
  for (int32_t p = 0; p < call.places; ++p) {
    const Sum* __restrict sums = static_cast<const Sum*>(call.sums) + p * call.sum_stride;
    int32_t v[kEpilogueColumns] = {};
    if (call.columns == kEpilogueColumns) {
      for (int32_t c = 0; c < kEpilogueColumns; ++c) v[c] = sums[c];
    } else {
      for (int32_t c = 0; c < call.columns; ++c) v[c] = sums[c];
    }
    for (int32_t c = 0; c < kEpilogueColumns; ++c) v[c] = bounded(v[c], call.low, call.high);
    if (call.A != nullptr) {
      for (int32_t c = 0; c < kEpilogueColumns; ++c) {
        v[c] = bounded(call.affine_zero + rounded(v[c] * constants.A[c] + constants.B[c], constants.s[c]), -top - 1, top);
      }
    }
    if (call.shortcut != nullptr) {
      const T* __restrict from = static_cast<const T*>(call.shortcut) + p * call.stride;
      int32_t other[kEpilogueColumns] = {};
      for (int32_t c = 0; c < call.columns; ++c) other[c] = from[c];
      for (int32_t c = 0; c < kEpilogueColumns; ++c) {
        v[c] = bounded(call.add_zero + rounded(v[c] * call.A0 + other[c] * call.A1 + call.add_B, call.add_s), -top - 1, top);
      }
    }
    if (call.y != nullptr) {
      T* __restrict to = static_cast<T*>(call.y) + p * call.stride;
      for (int32_t c = 0; c < call.columns; ++c) to[c] = static_cast<T>(v[c]);
    }
    if (call.threshold != nullptr) {
      uint32_t bits = 0;
      for (int32_t c = 0; c < call.columns; ++c) bits |= static_cast<uint32_t>(v[c] >= constants.threshold[c]) << c;
      uint8_t* signs = call.signs + p * call.sign_stride;
      signs[0] = static_cast<uint8_t>(bits);
      if (call.columns > 8) signs[1] = static_cast<uint8_t>(bits >> 8);
    }
  }
}

inline void by_types(const EpilogueCall& call) {
  with_short_type(call.bits, [&](auto type) {
    if (call.sum_bits == 16) {
      places<int16_t, decltype(type)>(call);
    } else {
      places<int32_t, decltype(type)>(call);
    }
  });
}

}  // namespace
}  // namespace everbit
