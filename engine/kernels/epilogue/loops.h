// The loops of every instruction set without a kernel by hand: the compiler's vectors do the work.
#pragma once

#include "../../fixed_point.h"
#include "../../number_types.h"
#include "epilogue.h"

namespace everbit {
namespace {

inline int32_t bounded(int32_t v, int32_t low, int32_t high) {
  const int32_t above = v < low ? low : v;
  return above > high ? high : above;
}

inline int32_t rounded(int32_t v, int32_t add, int32_t negative, int32_t shift) {
  const int32_t moved = v + add;
  return (moved - static_cast<int32_t>(moved < negative)) >> shift;
}

template <typename Sum, typename T>
void places(const EpilogueColumns& by, const EpilogueRows& rows) {
  constexpr int32_t top = (int32_t{1} << (8 * sizeof(T) - 1)) - 1;
  const EpilogueRounding after_add(by.add_B, by.add_s);
  for (int32_t p = 0; p < rows.places; ++p) {
    const Sum* __restrict sums = static_cast<const Sum*>(rows.sums) + p * rows.sum_stride;
    int32_t v[kEpilogueColumns] = {};
    if (by.count == kEpilogueColumns) {
      for (int32_t c = 0; c < kEpilogueColumns; ++c) v[c] = sums[c];
    } else {
      for (int32_t c = 0; c < by.count; ++c) v[c] = sums[c];
    }
    for (int32_t c = 0; c < kEpilogueColumns; ++c) v[c] = bounded(v[c], by.low, by.high);
    if (by.affine) {
      for (int32_t c = 0; c < kEpilogueColumns; ++c) {
        v[c] = bounded(by.affine_zero + rounded(v[c] * by.A[c][0], by.add[c], by.negative[c], by.shift[c]), -top - 1, top);
      }
    }
    if (by.adds) {
      const T* __restrict from = static_cast<const T*>(rows.shortcut) + p * rows.stride;
      int32_t other[kEpilogueColumns] = {};
      for (int32_t c = 0; c < by.count; ++c) other[c] = from[c];
      for (int32_t c = 0; c < kEpilogueColumns; ++c) {
        const int32_t sum = rounded(v[c] * by.A0 + other[c] * by.A1, after_add.add, after_add.negative, after_add.shift);
        v[c] = bounded(by.add_zero + sum, -top - 1, top);
      }
    }
    if (by.affine && rows.y != nullptr) {
      T* __restrict to = static_cast<T*>(rows.y) + p * rows.stride;
      for (int32_t c = 0; c < by.count; ++c) to[c] = static_cast<T>(v[c]);
    }
    if (by.sign) {
      uint32_t bits = 0;
      for (int32_t c = 0; c < by.count; ++c) bits |= static_cast<uint32_t>(v[c] >= by.threshold[c]) << c;
      uint8_t* signs = rows.signs + p * rows.sign_stride;
      signs[0] = static_cast<uint8_t>(bits);
      if (by.count > 8) signs[1] = static_cast<uint8_t>(bits >> 8);
    }
  }
}

inline void by_types(const EpilogueColumns& columns, const EpilogueRows& rows) {
  with_short_type(columns.bits, [&](auto type) {
    if (rows.sum_bits == 16) {
      places<int16_t, decltype(type)>(columns, rows);
    } else {
      places<int32_t, decltype(type)>(columns, rows);
    }
  });
}

}  // namespace
}  // namespace everbit
