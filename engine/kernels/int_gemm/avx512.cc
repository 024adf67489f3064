// vpdpwssd on 32 products: pairs of values along the sum, 16 columns to a vector. The weights of 32 columns are turned into such pairs in
// a panel, once for all rows; one 32-bit broadcast of A serves both halves. A panel ends after 510 terms, whose int32 sums are exact
// (int_gemm.h: 511), and its sums go to C in int64.
#include <immintrin.h>

#include <cstring>

#include "int_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kTerms = 510;
constexpr int32_t kPairs = kTerms / 2;
constexpr int kBlocks = 2;
constexpr int32_t kColumns = 16 * kBlocks;
constexpr int kRows = 8;

struct Panel {
  __m512i pairs[kPairs + 1][kBlocks];  // four weights of a column are unpacked at once: two pairs
};

// Terms `first` to `first + count` of `columns` (at most 32) columns of W; what is missing becomes 0.
void pack(const int8_t* w, int32_t length, int32_t first, int32_t count, int32_t columns, Panel& panel) {
  for (int block = 0; block < kBlocks; ++block) {
    for (int32_t k = 0; k < count; k += 4) {
      alignas(64) int32_t four[16] = {};
      const size_t bytes = count - k < 4 ? static_cast<size_t>(count - k) : 4;
      for (int32_t n = 0; n < 16 && block * 16 + n < columns; ++n) {
        const int8_t* from = w + static_cast<int64_t>(block * 16 + n) * length + first + k;
        if (bytes == 4) {
          std::memcpy(&four[n], from, 4);
        } else {
          std::memcpy(&four[n], from, bytes);
        }
      }
      // Byte 0 or 2 of each column to the upper half of a low word, byte 1 or 3 to that of a high word; the shift extends the sign.
      const __m512i all = _mm512_load_si512(four);
      const __m512i even = _mm512_or_si512(_mm512_slli_epi32(_mm512_and_si512(all, _mm512_set1_epi32(0xff)), 8),
                                           _mm512_slli_epi32(_mm512_and_si512(all, _mm512_set1_epi32(0xff00)), 16));
      const __m512i odd = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(all, 8), _mm512_set1_epi32(0xff00)),
                                          _mm512_and_si512(all, _mm512_set1_epi32(static_cast<int32_t>(0xff000000))));
      panel.pairs[k / 2][block] = _mm512_srai_epi16(even, 8);
      panel.pairs[k / 2 + 1][block] = _mm512_srai_epi16(odd, 8);
    }
  }
}

inline void store(__m512i sums, bool add, int32_t columns, int64_t* c) {
  const __mmask8 low = columns >= 8 ? 0xff : static_cast<__mmask8>((1 << columns) - 1);
  const __mmask8 high = columns >= 16 ? 0xff : columns > 8 ? static_cast<__mmask8>((1 << (columns - 8)) - 1) : 0;
  __m512i first = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(sums));
  __m512i second = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sums, 1));
  if (add) {
    first = _mm512_add_epi64(first, _mm512_maskz_loadu_epi64(low, c));
    second = _mm512_add_epi64(second, _mm512_maskz_loadu_epi64(high, c + 8));
  }
  _mm512_mask_storeu_epi64(c, low, first);
  _mm512_mask_storeu_epi64(c + 8, high, second);
}

// `a` starts at the panel's first term; values behind a row's end are 0, so that an odd last pair adds nothing.
template <int R>
void tile(const int16_t* a, int32_t stride, int32_t pairs, const Panel& panel, bool add, int32_t left, int32_t columns, int64_t* c) {
  __m512i sum[R][kBlocks];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int n = 0; n < kBlocks; ++n) sum[r][n] = _mm512_setzero_si512();
  }
  for (int32_t k = 0; k < pairs; ++k) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      int32_t pair;
      std::memcpy(&pair, a + static_cast<int64_t>(r) * stride + 2 * k, sizeof pair);
      const __m512i both = _mm512_set1_epi32(pair);
#pragma GCC unroll 2
      for (int n = 0; n < kBlocks; ++n) sum[r][n] = _mm512_dpwssd_epi32(sum[r][n], panel.pairs[k][n], both);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int n = 0; n < kBlocks; ++n) {
      if (left > 16 * n) store(sum[r][n], add, left - 16 * n, c + static_cast<int64_t>(r) * columns + 16 * n);
    }
  }
}

}  // namespace

void int_gemm_avx512(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  Panel panel;
  for (int32_t n = 0; n < columns; n += kColumns) {
    const int32_t left = columns - n < kColumns ? columns - n : kColumns;
    for (int32_t first = 0; first < length; first += kTerms) {
      const int32_t count = length - first < kTerms ? length - first : kTerms;
      pack(w + static_cast<int64_t>(n) * length, length, first, count, left, panel);
      const int32_t pairs = (count + 1) / 2;
      int32_t m = 0;
      for (; m + kRows <= rows; m += kRows) {
        tile<kRows>(a + static_cast<int64_t>(m) * stride + first, stride, pairs, panel, first != 0, left, columns,
                    c + static_cast<int64_t>(m) * columns + n);
      }
      for (; m < rows; ++m) {
        tile<1>(a + static_cast<int64_t>(m) * stride + first, stride, pairs, panel, first != 0, left, columns,
                c + static_cast<int64_t>(m) * columns + n);
      }
    }
  }
}

}  // namespace everbit
