// vcnt counts the bits of each byte; the counts gather in bytes for 31 words (31 x 8 < 256), then in 16-bit lanes, four a column (K <=
// 32767 fits one lane alone). A tile of kRows rows x 8 columns: each load of B serves all its rows.
#include <arm_neon.h>

#include "xnor_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kWordsBeforeFold = 31;
constexpr int kPairs = 4;  // 8 columns, two 64-bit words to a vector
#if defined(__aarch64__)
constexpr int kRows = 4;  // 16 counters of 32 registers
#else
constexpr int kRows = 2;  // 8 counters of 16 registers
#endif

template <int R>
void tile(const uint64_t* a, int32_t words, const uint64_t* block, int32_t columns, int32_t left, int32_t K, int16_t* c) {
  uint16x8_t total[R][kPairs];
  for (int r = 0; r < R; ++r) {
    for (int p = 0; p < kPairs; ++p) total[r][p] = vdupq_n_u16(0);
  }
  for (int32_t first = 0; first < words; first += kWordsBeforeFold) {
    const int32_t last = words - first < kWordsBeforeFold ? words : first + kWordsBeforeFold;
    uint8x16_t count[R][kPairs];
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < kPairs; ++p) count[r][p] = vdupq_n_u8(0);
    }
    for (int32_t w = first; w < last; ++w) {
      uint8x16_t row[R];
      for (int r = 0; r < R; ++r) row[r] = vreinterpretq_u8_u64(vdupq_n_u64(a[r * words + w]));
      for (int p = 0; p < kPairs; ++p) {
        const uint8x16_t column = vreinterpretq_u8_u64(vld1q_u64(block + w * 8 + p * 2));
        for (int r = 0; r < R; ++r) count[r][p] = vaddq_u8(count[r][p], vcntq_u8(veorq_u8(row[r], column)));
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int p = 0; p < kPairs; ++p) total[r][p] = vpadalq_u8(total[r][p], count[r][p]);
    }
  }
  for (int r = 0; r < R; ++r) {
    uint64_t differing[8];
    for (int p = 0; p < kPairs; ++p) vst1q_u64(differing + p * 2, vpaddlq_u32(vpaddlq_u16(total[r][p])));
    for (int32_t i = 0; i < 8 && i < left; ++i) c[r * columns + i] = static_cast<int16_t>(K - 2 * static_cast<int32_t>(differing[i]));
  }
}

template <int R>
void rows_by_all(const uint64_t* a, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  for (int32_t n = 0; n < columns; n += 8) tile<R>(a, words, b + n * words, columns, columns - n, K, c + n);
}

}  // namespace

void xnor_gemm_neon(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  int32_t m = 0;
  for (; m + kRows <= rows; m += kRows) rows_by_all<kRows>(a + m * words, words, b, columns, K, c + m * columns);
  for (; m < rows; ++m) rows_by_all<1>(a + m * words, words, b, columns, K, c + m * columns);
}

}  // namespace everbit
