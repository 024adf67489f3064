// Sixteen channels to a vector of 32-bit lanes. Products of 16-bit numbers are vpmaddwd, one instruction where vpmulld is two; for the
// shortcut its two products are the two that meet.
#include <immintrin.h>

#include <cstring>

#include "../../number_types.h"
#include "epilogue.h"

namespace everbit {
namespace {

// EpilogueRounding by lane.
struct Rounding {
  __m512i add, negative, shift;

  explicit Rounding(const EpilogueColumns& by)
      : add(_mm512_load_si512(by.add)), negative(_mm512_load_si512(by.negative)), shift(_mm512_load_si512(by.shift)) {}
  explicit Rounding(const EpilogueRounding& by)
      : add(_mm512_set1_epi32(by.add)), negative(_mm512_set1_epi32(by.negative)), shift(_mm512_set1_epi32(by.shift)) {}

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
  const __m512i A = _mm512_load_si512(by.A);
  constexpr bool kEarly = kAdd && sizeof(T) == 2;
  const int32_t late = kEarly ? 0 : by.affine_zero;
  const Rounding after_affine(by);
  const __m512i early = _mm512_set1_epi32(by.affine_zero - late);
  const __m512i affine_low = _mm512_set1_epi32(-top - 1 - late), affine_high = _mm512_set1_epi32(top - late);
  const Rounding after_add(EpilogueRounding(by.add_B + by.A0 * late, by.add_s));
  const __m512i add_low = _mm512_set1_epi32(-top - 1 - by.add_zero), add_high = _mm512_set1_epi32(top - by.add_zero);
  const __m512i factors = _mm512_set1_epi32((by.A0 & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(by.A1) << 16));
  const __m512i zero_point = _mm512_set1_epi32(kAdd ? by.add_zero : kAffine ? by.affine_zero : 0);
  __m512i threshold = A;
  if constexpr (kSign) {
    threshold = _mm512_sub_epi32(_mm512_load_si512(by.threshold), zero_point);
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

// The bytes of both rows, one behind the other: value 4 q + i of row r stands at word 8 q + 4 r + i.
struct alignas(64) Apart {
  uint8_t places[64];

  constexpr Apart() : places() {
    for (int i = 0; i < 64; ++i) places[i] = static_cast<uint8_t>(2 * (i % 16 / 4 * 8 + i / 16 % 2 * 4 + i % 4));
  }
};
constexpr Apart kApart;

// Two places of sixteen 8-bit values at once: what needs no products of 32 bits, bounds, comparisons and narrowing, is done for both in
// 16-bit lanes. Packing (vpackssdw) two vectors and unpacking them again leaves each as it was.
template <bool kAdd, bool kSign>
void pairs_of_bytes(const EpilogueColumns& by, EpilogueRows& rows) {
  const __m512i low = _mm512_set1_epi32(by.low), high = _mm512_set1_epi32(by.high);
  const bool bounded_above = by.high < INT16_MAX;
  const __m512i A = _mm512_load_si512(by.A);
  const Rounding after_affine(by);
  const Rounding after_add(EpilogueRounding(by.add_B + by.A0 * by.affine_zero, by.add_s));
  const auto bounds16 = [](int32_t value) { return _mm512_set1_epi16(static_cast<int16_t>(value)); };
  const __m512i affine_low = bounds16(INT8_MIN - by.affine_zero), affine_high = bounds16(INT8_MAX - by.affine_zero);
  const __m512i add_low = bounds16(INT8_MIN - by.add_zero), add_high = bounds16(INT8_MAX - by.add_zero);
  const __m512i factors = _mm512_set1_epi32((by.A0 & 0xffff) | static_cast<int32_t>(static_cast<uint32_t>(by.A1) << 16));
  const int32_t zero = kAdd ? by.add_zero : by.affine_zero;
  const __m512i zero_point = bounds16(zero);
  const __m512i threshold32 = _mm512_sub_epi32(_mm512_load_si512(by.threshold), _mm512_set1_epi32(zero));
  const __m512i threshold = _mm512_packs_epi32(threshold32, threshold32);
  const __m512i together = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);  // quarters of two rows in the order of packing
  const __m512i apart = _mm512_load_si512(kApart.places);

  const int32_t* sums = static_cast<const int32_t*>(rows.sums);
  const int8_t* shortcut = static_cast<const int8_t*>(rows.shortcut);
  int8_t* y = static_cast<int8_t*>(rows.y);
  uint8_t* signs = rows.signs;
  for (; rows.places >= 2; rows.places -= 2) {
    __m512i v0 = _mm512_max_epi32(_mm512_loadu_si512(sums), low);
    __m512i v1 = _mm512_max_epi32(_mm512_loadu_si512(sums + rows.sum_stride), low);
    if (bounded_above) {
      v0 = _mm512_min_epi32(v0, high);
      v1 = _mm512_min_epi32(v1, high);
    }
    __m512i both = _mm512_packs_epi32(after_affine(_mm512_madd_epi16(v0, A)), after_affine(_mm512_madd_epi16(v1, A)));
    both = _mm512_min_epi16(_mm512_max_epi16(both, affine_low), affine_high);
    if constexpr (kAdd) {
      const __m256i first = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(shortcut)));
      const __m256i second = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(shortcut + rows.stride)));
      const __m512i other = _mm512_permutex2var_epi64(_mm512_castsi256_si512(first), together, _mm512_castsi256_si512(second));
      v0 = after_add(_mm512_madd_epi16(_mm512_unpacklo_epi16(both, other), factors));
      v1 = after_add(_mm512_madd_epi16(_mm512_unpackhi_epi16(both, other), factors));
      both = _mm512_min_epi16(_mm512_max_epi16(_mm512_packs_epi32(v0, v1), add_low), add_high);
      shortcut += 2 * rows.stride;
    }
    if (y != nullptr) {
      const __m512i bytes = _mm512_permutexvar_epi8(apart, _mm512_add_epi16(both, zero_point));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm512_castsi512_si128(bytes));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + rows.stride), _mm512_extracti32x4_epi32(bytes, 1));
      y += 2 * rows.stride;
    }
    if constexpr (kSign) {
      const uint32_t bits = _mm512_cmpge_epi16_mask(both, threshold);
      const uint16_t first = static_cast<uint16_t>(_pext_u32(bits, 0x0f0f0f0fu));
      const uint16_t second = static_cast<uint16_t>(_pext_u32(bits, 0xf0f0f0f0u));
      std::memcpy(signs, &first, sizeof first);
      std::memcpy(signs + rows.sign_stride, &second, sizeof second);
      signs += 2 * rows.sign_stride;
    }
    sums += 2 * rows.sum_stride;
  }
  rows.sums = sums;
  rows.shortcut = shortcut;
  rows.y = y;
  rows.signs = signs;
}

template <typename Sum, typename T, bool kAffine, bool kAdd, bool kSign>
void columns_of(const EpilogueColumns& columns, EpilogueRows rows) {
  if (columns.count == kEpilogueColumns) {
    if constexpr (sizeof(Sum) == sizeof(int32_t) && sizeof(T) == 1 && kAffine) pairs_of_bytes<kAdd, kSign>(columns, rows);
    places<true, Sum, T, kAffine, kAdd, kSign>(columns, rows);
  } else {
    places<false, Sum, T, kAffine, kAdd, kSign>(columns, rows);
  }
}

template <typename Sum, typename T>
void of_types(const EpilogueColumns& columns, const EpilogueRows& rows) {
  if (!columns.affine) {
    columns_of<Sum, T, false, false, true>(columns, rows);
  } else if (columns.adds) {
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
