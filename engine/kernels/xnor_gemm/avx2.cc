// AVX2 has no vector popcount: vpshufb looks up the count of each half byte (Mula), vpsadbw adds bytes to 64 bits. Byte counters take
// 31 words of at most 8 before they must be emptied.
#include <immintrin.h>

#include "xnor_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kWordsBeforeFold = 31;

__m256i byte_popcount(__m256i v) {
  const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  const __m256i low = _mm256_set1_epi8(15);
  return _mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256(v, low)),
                         _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), low)));
}

}  // namespace

void xnor_gemm_avx2(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  for (int32_t m = 0; m < rows; ++m, a += words, c += columns) {
    const uint64_t* block = b;
    for (int32_t n = 0; n < columns; n += 8, block += words * 8) {
      __m256i total[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
      for (int32_t first = 0; first < words; first += kWordsBeforeFold) {
        const int32_t last = words - first < kWordsBeforeFold ? words : first + kWordsBeforeFold;
        __m256i count[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (int32_t w = first; w < last; ++w) {
          const __m256i row = _mm256_set1_epi64x(static_cast<int64_t>(a[w]));
          for (int half = 0; half < 2; ++half) {
            const __m256i column = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + w * 8 + half * 4));
            count[half] = _mm256_add_epi8(count[half], byte_popcount(_mm256_xor_si256(row, column)));
          }
        }
        for (int half = 0; half < 2; ++half) {
          total[half] = _mm256_add_epi64(total[half], _mm256_sad_epu8(count[half], _mm256_setzero_si256()));
        }
      }
      alignas(32) int64_t differing[8];
      for (int half = 0; half < 2; ++half) _mm256_store_si256(reinterpret_cast<__m256i*>(differing + half * 4), total[half]);
      for (int32_t i = 0; i < 8 && n + i < columns; ++i) c[n + i] = static_cast<int16_t>(K - 2 * differing[i]);
    }
  }
}

}  // namespace everbit
