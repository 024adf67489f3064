// VPOPCNTDQ counts eight words at a time. A tile of 6 rows x 32 columns keeps 24 counters in registers: each 512-bit load of B serves
// six rows, each broadcast of A four blocks, so that xor, popcount and add (36 cycles a word of the tile on p0 and p5) hide the 10 loads.
// Blocks of columns stand outside the rows: a block of B stays in the first-level cache while all rows pass.
#include <immintrin.h>

#include "xnor_gemm.h"

namespace everbit {
namespace {

constexpr int kRows = 6;
constexpr int kBlocks = 4;

// Counters of four blocks, 16 bits of each 64 used, become one vector: words 4 j + n (column j of block n) go to place 8 n + j.
inline __m512i interleaved(__m512i count0, __m512i count1, __m512i count2, __m512i count3) {
  alignas(64) static constexpr int16_t kPlaces[32] = {0, 4, 8,  12, 16, 20, 24, 28, 1, 5, 9,  13, 17, 21, 25, 29,
                                                      2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31};
  const __m512i low = _mm512_or_si512(count0, _mm512_slli_epi64(count1, 16));
  const __m512i high = _mm512_or_si512(_mm512_slli_epi64(count2, 32), _mm512_slli_epi64(count3, 48));
  return _mm512_permutexvar_epi16(_mm512_load_si512(kPlaces), _mm512_or_si512(low, high));
}

template <int R, int N>
inline void tile(const uint64_t* a, int32_t words, const uint64_t* b, int32_t columns, int32_t left, int32_t K, int16_t* c) {
  __m512i count[R][kBlocks];
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < kBlocks; ++n) count[r][n] = _mm512_setzero_si512();
  }
  for (int32_t w = 0; w < words; ++w) {
    __m512i column[N];
    for (int n = 0; n < N; ++n) column[n] = _mm512_loadu_si512(b + (n * words + w) * 8);
    for (int r = 0; r < R; ++r) {
      const __m512i row = _mm512_set1_epi64(static_cast<int64_t>(a[r * words + w]));
      for (int n = 0; n < N; ++n) {
        count[r][n] = _mm512_add_epi64(count[r][n], _mm512_popcnt_epi64(_mm512_xor_si512(row, column[n])));
      }
    }
  }
  const __m512i terms = _mm512_set1_epi16(static_cast<int16_t>(K));
  const __mmask32 there = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
  for (int r = 0; r < R; ++r) {
    const __m512i differing = interleaved(count[r][0], count[r][1], count[r][2], count[r][3]);
    _mm512_mask_storeu_epi16(c + r * columns, there, _mm512_sub_epi16(terms, _mm512_add_epi16(differing, differing)));
  }
}

template <int N>
void block_by_rows(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t left, int32_t K, int16_t* c) {
  int32_t m = 0;
  for (; m + kRows <= rows; m += kRows) tile<kRows, N>(a + m * words, words, b, columns, left, K, c + m * columns);
  for (; m < rows; ++m) tile<1, N>(a + m * words, words, b, columns, left, K, c + m * columns);
}

}  // namespace

void xnor_gemm_avx512(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  static_assert(kBlocks == 4, "one case for every number of blocks that may be left");
  for (int32_t n = 0; n < columns; n += 8 * kBlocks) {
    const int32_t left = columns - n;
    switch (left > 24 ? 4 : (left + 7) / 8) {
      case 4: block_by_rows<4>(a, rows, words, b + n * words, columns, left, K, c + n); break;
      case 3: block_by_rows<3>(a, rows, words, b + n * words, columns, left, K, c + n); break;
      case 2: block_by_rows<2>(a, rows, words, b + n * words, columns, left, K, c + n); break;
      default: block_by_rows<1>(a, rows, words, b + n * words, columns, left, K, c + n);
    }
  }
}

}  // namespace everbit
