// vpmaddwd on 16 products; its int32 sums are emptied into int64 every 256 steps, long before 2^9 terms a lane (int_gemm.h).
#include <immintrin.h>

#include "int_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kStepsBeforeFold = 256;

int64_t fold(__m256i sums) {
  const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(sums));
  const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(sums, 1));
  alignas(32) int64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_add_epi64(low, high));
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

}  // namespace

void int_gemm_avx2(const int16_t* a, int32_t rows, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  for (int32_t m = 0; m < rows; ++m, a += length) {
    for (int32_t n = 0; n < columns; ++n) {
      const int8_t* column = w + static_cast<int64_t>(n) * length;
      int64_t sum = 0;
      int32_t k = 0;
      while (k + 16 <= length) {
        __m256i sums = _mm256_setzero_si256();
        for (int32_t step = 0; step < kStepsBeforeFold && k + 16 <= length; ++step, k += 16) {
          const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + k));
          const __m256i weights = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(column + k)));
          sums = _mm256_add_epi32(sums, _mm256_madd_epi16(values, weights));
        }
        sum += fold(sums);
      }
      for (; k < length; ++k) sum += a[k] * column[k];
      *c++ = sum;
    }
  }
}

}  // namespace everbit
