// VPOPCNTDQ counts eight words at a time. Tiles of 4 rows x 16 columns keep eight counters in registers: each 512-bit load of B serves
// four rows, each broadcast of A two blocks.
#include <immintrin.h>

#include "xnor_gemm.h"

namespace everbit {
namespace {

constexpr int kRows = 4;
constexpr int kBlocks = 2;

void store(int16_t* c, __m512i differing, int32_t K, int32_t columns) {
  const __m512i z = _mm512_sub_epi64(_mm512_set1_epi64(K), _mm512_slli_epi64(differing, 1));
  const __mmask8 mask = columns >= 8 ? 0xff : static_cast<__mmask8>((1 << columns) - 1);
  _mm_mask_storeu_epi16(c, mask, _mm512_cvtepi64_epi16(z));
}

template <int R, int N>
void tile(const uint64_t* a, int32_t words, const uint64_t* b, int32_t columns, int32_t left, int32_t K, int16_t* c) {
  __m512i count[R][N];
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) count[r][n] = _mm512_setzero_si512();
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
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) store(c + r * columns + n * 8, count[r][n], K, left - n * 8);
  }
}

template <int R>
void rows_by_all(const uint64_t* a, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  int32_t n = 0;
  for (; n + 8 < columns; n += 8 * kBlocks) tile<R, kBlocks>(a, words, b + n * words, columns, columns - n, K, c + n);
  if (n < columns) tile<R, 1>(a, words, b + n * words, columns, columns - n, K, c + n);
}

}  // namespace

void xnor_gemm_avx512(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  int32_t m = 0;
  for (; m + kRows <= rows; m += kRows) rows_by_all<kRows>(a + m * words, words, b, columns, K, c + m * columns);
  for (; m < rows; ++m) rows_by_all<1>(a + m * words, words, b, columns, K, c + m * columns);
}

}  // namespace everbit
