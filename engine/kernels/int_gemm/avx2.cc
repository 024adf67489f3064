// vpmaddwd on 16 products. Its int32 sums are emptied into int64 after 510 terms a lane, two a step (int_gemm.h: 511 are exact). The
// weights of a column are widened once for all rows; the last ones are copied, so that nothing is read behind the matrix.
#include <immintrin.h>

#include <cstring>

#include "int_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kStepsBeforeFold = 255;

int64_t fold(__m256i sums) {
  const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(sums));
  const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(sums, 1));
  const __m256i four = _mm256_add_epi64(low, high);
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  return _mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1);
}

// Adds steps `first` to `last` of one column to C.
void add_steps(const int16_t* a, int32_t rows, int32_t stride, const __m256i* weights, int32_t first, int32_t last, int32_t columns,
               int64_t* c) {
  for (int32_t m = 0; m < rows; ++m) {
    const int16_t* row = a + static_cast<int64_t>(m) * stride;
    __m256i sums = _mm256_setzero_si256();
    for (int32_t step = first; step < last; ++step) {
      const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + step * kIntGemmStep));
      sums = _mm256_add_epi32(sums, _mm256_madd_epi16(values, weights[step - first]));
    }
    c[static_cast<int64_t>(m) * columns] += fold(sums);
  }
}

__m256i widened(const int8_t* w, int32_t count) {
  int8_t bytes[kIntGemmStep] = {};
  std::memcpy(bytes, w, static_cast<size_t>(count < kIntGemmStep ? count : kIntGemmStep));
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

}  // namespace

void int_gemm_avx2(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  constexpr int32_t kStepsAtOnce = 32;
  static_assert(kStepsAtOnce <= kStepsBeforeFold, "int32 sums stay exact");
  for (int64_t i = 0; i < int64_t{rows} * columns; ++i) c[i] = 0;
  const int32_t steps = stride / kIntGemmStep;
  __m256i weights[kStepsAtOnce];
  for (int32_t n = 0; n < columns; ++n) {
    const int8_t* column = w + static_cast<int64_t>(n) * length;
    for (int32_t first = 0; first < steps; first += kStepsAtOnce) {
      const int32_t last = steps - first < kStepsAtOnce ? steps : first + kStepsAtOnce;
      for (int32_t step = first; step < last; ++step) {
        weights[step - first] = widened(column + step * kIntGemmStep, length - step * kIntGemmStep);
      }
      add_steps(a, rows, stride, weights, first, last, columns, c + n);
    }
  }
}

}  // namespace everbit
