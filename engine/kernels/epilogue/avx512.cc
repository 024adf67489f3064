// Sixteen channels to a vector of 32-bit lanes. Products of 16-bit numbers are vpmaddwd, one instruction where vpmulld is two; for the
// shortcut its two products are the two that meet.
#include <immintrin.h>

#include "../../number_types.h"
#include "epilogue.h"

namespace everbit {
namespace {

// A rounding right shift, half away from zero, of v + add: the sum with half a unit, less 1 where v + add was negative.
struct Rounding {
  __m512i half;
  __m512i shift;
  __m512i add;       // with the half
  __m512i negative;  // below it v + add is negative; where the shift is 0, nothing is

  Rounding(__m512i by, __m512i addend)
      : half(_mm512_srli_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(1), by), 1)),
        shift(by),
        add(_mm512_add_epi32(addend, half)),
        negative(_mm512_mask_mov_epi32(half, _mm512_testn_epi32_mask(by, by), _mm512_set1_epi32(INT32_MIN))) {}

  __m512i operator()(__m512i v) const {
    const __m512i moved = _mm512_add_epi32(v, add);
    const __mmask16 below = _mm512_cmplt_epi32_mask(moved, negative);
    return _mm512_srav_epi32(_mm512_mask_sub_epi32(moved, below, moved, _mm512_set1_epi32(1)), shift);
  }
};

// Sixteen columns need no mask.
template <bool kWhole>
inline __m512i load(__mmask16 there, const int32_t* from) {
  return kWhole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi32(there, from);
}
template <bool kWhole>
inline __m512i load(__mmask16 there, const int16_t* from) {
  return _mm512_cvtepi16_epi32(kWhole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)) : _mm256_maskz_loadu_epi16(there, from));
}
template <bool kWhole>
inline __m512i load(__mmask16 there, const int8_t* from) {
  return _mm512_cvtepi8_epi32(kWhole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)) : _mm_maskz_loadu_epi8(there, from));
}
template <bool kWhole>
inline void store(int8_t* to, __mmask16 there, __m512i v) {
  const __m128i bytes = _mm512_cvtepi32_epi8(v);
  kWhole ? _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes) : _mm_mask_storeu_epi8(to, there, bytes);
}
template <bool kWhole>
inline void store(int16_t* to, __mmask16 there, __m512i v) {
  const __m256i words = _mm512_cvtepi32_epi16(v);
  kWhole ? _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), words) : _mm256_mask_storeu_epi16(to, there, words);
}

inline __m512i bounded(__m512i v, __m512i low, __m512i high) { return _mm512_min_epi32(_mm512_max_epi32(v, low), high); }

// The zero point of what the affine or the add gives comes on last, where it is stored; bounds, thresholds and the add's constant take it
// off. Before an add of 16-bit values it cannot wait, since its factors are multiplied in 16 bits.
template <bool kWhole, typename Sum, typename T, bool kAffine, bool kAdd, bool kSign>
void places(const EpilogueColumns& by, const EpilogueRows& rows) {
  constexpr int32_t top = (int32_t{1} << (8 * sizeof(T) - 1)) - 1;
  const __mmask16 there = static_cast<__mmask16>((1u << by.count) - 1);
  const __m512i low = _mm512_set1_epi32(by.low), high = _mm512_set1_epi32(by.high);
  const __m512i A = _mm512_and_si512(_mm512_load_si512(by.A), _mm512_set1_epi32(0xffff));
  constexpr bool kEarly = kAdd && sizeof(T) == 2;
  const int32_t late = kEarly ? 0 : by.affine_zero;
  const Rounding after_affine(_mm512_load_si512(by.s), _mm512_load_si512(by.B));
  const __m512i early = _mm512_set1_epi32(by.affine_zero - late);
  const __m512i affine_low = _mm512_set1_epi32(-top - 1 - late), affine_high = _mm512_set1_epi32(top - late);
  const Rounding after_add(_mm512_set1_epi32(by.add_s), _mm512_set1_epi32(by.add_B + by.A0 * late));
  const __m512i add_low = _mm512_set1_epi32(-top - 1 - by.add_zero), add_high = _mm512_set1_epi32(top - by.add_zero);
  const __m512i factors = _mm512_set1_epi32((by.A0 & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(by.A1) << 16));
  const __m512i zero_point = _mm512_set1_epi32(kAdd ? by.add_zero : kAffine ? by.affine_zero : 0);
  __m512i threshold = A;
  if constexpr (kSign) {
    const __m512i always = _mm512_set1_epi32(INT16_MIN), never = _mm512_set1_epi32(INT16_MAX + 1);
    threshold = _mm512_sub_epi32(bounded(_mm512_load_si512(by.threshold), always, never), zero_point);
  }
  const Sum* sums = static_cast<const Sum*>(rows.sums);
  const T* shortcut = static_cast<const T*>(rows.shortcut);
  T* y = static_cast<T*>(rows.y);
  uint8_t* signs = rows.signs;
  for (int32_t p = 0; p < rows.places; ++p) {
    __m512i v = bounded(load<kWhole>(there, sums), low, high);
    if constexpr (kAffine) {
      v = after_affine(_mm512_madd_epi16(v, A));
      if constexpr (kEarly) v = _mm512_add_epi32(v, early);
      v = bounded(v, affine_low, affine_high);
    }
    if constexpr (kAdd) {
      // The two numbers of a lane side by side, as 16 bits each.
      const __m512i pair = _mm512_mask_blend_epi16(0xaaaaaaaa, v, _mm512_slli_epi32(load<kWhole>(there, shortcut), 16));
      v = bounded(after_add(_mm512_madd_epi16(pair, factors)), add_low, add_high);
      shortcut += rows.stride;
    }
    if constexpr (kAffine) {
      if (y != nullptr) {
        store<kWhole>(y, there, _mm512_add_epi32(v, zero_point));
        y += rows.stride;
      }
    }
    if constexpr (kSign) {
      const __mmask16 bits = _mm512_mask_cmpge_epi32_mask(there, v, threshold);
      if (kWhole || by.count > 8) {
        _store_mask16(reinterpret_cast<__mmask16*>(signs), bits);
      } else {
        *signs = static_cast<uint8_t>(bits);
      }
      signs += rows.sign_stride;
    }
    sums += rows.sum_stride;
  }
}

template <typename Sum, typename T, bool kAffine, bool kAdd, bool kSign>
void columns_of(const EpilogueColumns& columns, const EpilogueRows& rows) {
  if (columns.count == kEpilogueColumns) {
    places<true, Sum, T, kAffine, kAdd, kSign>(columns, rows);
  } else {
    places<false, Sum, T, kAffine, kAdd, kSign>(columns, rows);
  }
}

template <typename Sum, typename T>
void of_types(const EpilogueColumns& columns, const EpilogueRows& rows) {
  if (!columns.affine) {
    columns_of<Sum, T, false, false, true>(columns, rows);
  } else if (columns.add) {
    columns.sign ? columns_of<Sum, T, true, true, true>(columns, rows) : columns_of<Sum, T, true, true, false>(columns, rows);
  } else {
    columns.sign ? columns_of<Sum, T, true, false, true>(columns, rows) : columns_of<Sum, T, true, false, false>(columns, rows);
  }
}

}  // namespace

void epilogue_avx512(const EpilogueColumns& columns, const EpilogueRows& rows) {
  with_short_type(columns.bits, [&](auto type) {
    if (rows.sum_bits == 16) {
      of_types<int16_t, decltype(type)>(columns, rows);
    } else {
      of_types<int32_t, decltype(type)>(columns, rows);
    }
  });
}

}  // namespace everbit
