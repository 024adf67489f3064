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
void places(const EpilogueCall& call) {
  constexpr int32_t top = (int32_t{1} << (8 * sizeof(T) - 1)) - 1;
  const __mmask16 there = static_cast<__mmask16>((1u << call.columns) - 1);
  const __m512i low16 = _mm512_set1_epi32(0xffff), none = _mm512_setzero_si512();
  const __m512i low = _mm512_set1_epi32(call.low), high = _mm512_set1_epi32(call.high);
  __m512i A = none, B = none, s = none, threshold = none;
  if constexpr (kAffine) {
    A = _mm512_and_si512(load<kWhole>(there, call.A), low16);
    B = load<kWhole>(there, call.B);
    s = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, call.s));
  }
  constexpr bool kEarly = kAdd && sizeof(T) == 2;
  const int32_t late = kEarly ? 0 : call.affine_zero;
  const Rounding after_affine(s, B);
  const __m512i early = _mm512_set1_epi32(call.affine_zero - late);
  const __m512i affine_low = _mm512_set1_epi32(-top - 1 - late), affine_high = _mm512_set1_epi32(top - late);
  const Rounding after_add(_mm512_set1_epi32(call.add_s), _mm512_set1_epi32(call.add_B + call.A0 * late));
  const __m512i add_low = _mm512_set1_epi32(-top - 1 - call.add_zero), add_high = _mm512_set1_epi32(top - call.add_zero);
  const __m512i factors = _mm512_set1_epi32((call.A0 & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(call.A1) << 16));
  const __m512i zero_point = _mm512_set1_epi32(kAdd ? call.add_zero : kAffine ? call.affine_zero : 0);
  if constexpr (kSign) {
    const __m512i always = _mm512_set1_epi32(INT16_MIN), never = _mm512_set1_epi32(INT16_MAX + 1);
    threshold = _mm512_sub_epi32(bounded(load<kWhole>(there, call.threshold), always, never), zero_point);
  }
  const Sum* sums = static_cast<const Sum*>(call.sums);
  const T* shortcut = static_cast<const T*>(call.shortcut);
  T* y = static_cast<T*>(call.y);
  uint8_t* signs = call.signs;
  for (int32_t p = 0; p < call.places; ++p) {
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
      shortcut += call.stride;
    }
    if constexpr (kAffine) {
      if (y != nullptr) {
        store<kWhole>(y, there, _mm512_add_epi32(v, zero_point));
        y += call.stride;
      }
    }
    if constexpr (kSign) {
      const __mmask16 bits = _mm512_mask_cmpge_epi32_mask(there, v, threshold);
      if (kWhole || call.columns > 8) {
        _store_mask16(reinterpret_cast<__mmask16*>(signs), bits);
      } else {
        *signs = static_cast<uint8_t>(bits);
      }
      signs += call.sign_stride;
    }
    sums += call.sum_stride;
  }
}

template <typename Sum, typename T, bool kAffine, bool kAdd, bool kSign>
void columns_of(const EpilogueCall& call) {
  if (call.columns == kEpilogueColumns) {
    places<true, Sum, T, kAffine, kAdd, kSign>(call);
  } else {
    places<false, Sum, T, kAffine, kAdd, kSign>(call);
  }
}

template <typename Sum, typename T>
void of_types(const EpilogueCall& call) {
  const bool sign = call.threshold != nullptr;
  if (call.A == nullptr) {
    columns_of<Sum, T, false, false, true>(call);
  } else if (call.shortcut != nullptr) {
    sign ? columns_of<Sum, T, true, true, true>(call) : columns_of<Sum, T, true, true, false>(call);
  } else {
    sign ? columns_of<Sum, T, true, false, true>(call) : columns_of<Sum, T, true, false, false>(call);
  }
}

}  // namespace

void epilogue_avx512(const EpilogueCall& call) {
  with_short_type(call.bits, [&](auto type) {
    if (call.sum_bits == 16) {
      of_types<int16_t, decltype(type)>(call);
    } else {
      of_types<int32_t, decltype(type)>(call);
    }
  });
}

}  // namespace everbit
