// VNNI multiplies 32 pairs of 16-bit numbers, or 64 of 8-bit ones, and adds them in 32-bit lanes. The bits become numbers in a panel that
// stays in the first-level cache: a group of rows of B (two for 16 bits, four for 8) interleaved, so that one 32-bit broadcast of G meets
// them all.
//
// 16 bits: the panel holds +-1, 0 where nothing is present. 8 bits: vpdpbusd wants one unsigned factor, so the panel holds the bits, 1 or 0,
// and sum g b = 2 sum g bit - sum g over what is present.
#include <immintrin.h>

#include <cstring>

#include "bit_masks.h"
#include "sign_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kGroups = 96;  // a panel of 96 x 256 bytes
constexpr int kRows = 6;         // 24 accumulators + 4 of the panel

template <typename T>
constexpr int32_t kPanel = kGroups * kGroup<T>;

struct Panel {
  __m512i values[kGroups][kVectors];
  alignas(64) uint8_t present[kPanel<int8_t>];  // 1 or 0; used where values cannot tell
};

template <typename T>
void unpack(const uint64_t* bits, const uint8_t* present, int32_t count, Panel& panel) {
  for_each_vector<T>(bits, present, count, [&](int32_t group, int v, uint64_t plus, uint64_t there) {
    if constexpr (sizeof(T) == 1) {
      panel.values[group][v] = _mm512_maskz_set1_epi8(plus & there, 1);
    } else {
      const __m512i sign = _mm512_mask_blend_epi16(static_cast<__mmask32>(plus), _mm512_set1_epi16(-1), _mm512_set1_epi16(1));
      panel.values[group][v] = _mm512_maskz_mov_epi16(static_cast<__mmask32>(there), sign);
    }
  });
  for (int32_t i = 0; sizeof(T) == 1 && i < kPanel<T>; ++i) {
    panel.present[i] = i < count && (present == nullptr || present[i] != 0);
  }
}

inline __m512i add_products(__m512i sum, __m512i panel, __m512i g, int16_t) { return _mm512_dpwssd_epi32(sum, panel, g); }
inline __m512i add_products(__m512i sum, __m512i panel, __m512i g, int8_t) { return _mm512_dpbusd_epi32(sum, panel, g); }

// The sum of a row's gradients where something is present.
int32_t present_sum(const int8_t* g, int32_t count, const Panel& panel) {
  __m512i sum = _mm512_setzero_si512();
  for (int32_t i = 0; i < count; i += 64) {
    const __mmask64 inside = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
    sum = _mm512_dpbusd_epi32(sum, _mm512_load_si512(panel.present + i), _mm512_maskz_loadu_epi8(inside, g + i));
  }
  return _mm512_reduce_add_epi32(sum);
}

template <int R, typename T>
void accumulate(const T* g, int32_t length, int32_t first, int32_t count, const Panel& panel, int32_t* c) {
  __m512i sum[R][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_si512();
  }
  const int32_t groups = count / kGroup<T>;
  for (int32_t i = 0; i < groups; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      int32_t group;
      std::memcpy(&group, g + static_cast<int64_t>(r) * length + first + i * kGroup<T>, sizeof group);
      const __m512i all = _mm512_set1_epi32(group);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = add_products(sum[r][v], panel.values[i][v], all, T{});
    }
  }
  const int32_t left = count % kGroup<T>;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const T* row = g + static_cast<int64_t>(r) * length + first;
    if (left != 0) {
      int32_t group = 0;
      std::memcpy(&group, row + count - left, static_cast<size_t>(left) * sizeof(T));
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = add_products(sum[r][v], panel.values[groups][v], _mm512_set1_epi32(group), T{});
    }
    __m512i offset = _mm512_setzero_si512();
    if constexpr (sizeof(T) == 1) offset = _mm512_set1_epi32(present_sum(row, count, panel));
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      int32_t* to = c + r * 64 + v * 16;
      __m512i total = sum[r][v];
      if constexpr (sizeof(T) == 1) total = _mm512_sub_epi32(_mm512_add_epi32(total, total), offset);
      if (first != 0) total = _mm512_add_epi32(total, _mm512_loadu_si512(to));
      _mm512_storeu_si512(to, total);
    }
  }
}

template <typename T>
void product(const T* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  Panel panel;
  for (int32_t first = 0; first < length; first += kPanel<T>) {
    const int32_t count = length - first < kPanel<T> ? length - first : kPanel<T>;
    unpack<T>(bits + first, present == nullptr ? nullptr : present + first, count, panel);
    int32_t m = 0;
    for (; m + kRows <= rows; m += kRows) {
      accumulate<kRows>(g + static_cast<int64_t>(m) * length, length, first, count, panel, c + m * 64);
    }
    for (; m < rows; ++m) accumulate<1>(g + static_cast<int64_t>(m) * length, length, first, count, panel, c + m * 64);
  }
}

}  // namespace

void sign_gemm_avx512(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  product(g, rows, length, bits, present, c);
}

void sign_gemm_avx512(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  product(g, rows, length, bits, present, c);
}

}  // namespace everbit
