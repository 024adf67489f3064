// As avx512.cc, with vpmaddwd and vpaddd on 16 products. |g| <= 2^15 - 1, so the pair of products vpmaddwd adds cannot overflow.
#include <immintrin.h>

#include <cstring>

#include "sign_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kPairs = 64;  // a panel of 64 x 256 bytes
constexpr int kVectors = 8;     // 64 columns, 8 to a vector
constexpr int kAtOnce = 2;      // vectors in a tile of kRows: 8 accumulators
constexpr int kRows = 4;

struct Panel {
  __m256i values[kPairs][kVectors];
};

__m256i signs(uint32_t even, uint32_t odd, int32_t there) {
  const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
  const uint32_t mixed = _pdep_u32(even, 0x5555u) | _pdep_u32(odd, 0xaaaau);
  const __m256i plus = _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16(static_cast<int16_t>(mixed)), bit), bit);
  // plus is -1 where the bit is set: -1 - 2 * plus is +1 there and -1 elsewhere.
  const __m256i sign = _mm256_sub_epi16(_mm256_set1_epi16(-1), _mm256_add_epi16(plus, plus));
  return _mm256_and_si256(sign, _mm256_set1_epi32(there));
}

void unpack(const uint64_t* bits, const uint8_t* present, int32_t count, Panel& panel) {
  for (int32_t i = 0; i < count; i += 2) {
    const bool paired = i + 1 < count;
    const uint64_t even = bits[i];
    const uint64_t odd = paired ? bits[i + 1] : 0;
    const uint32_t even_there = present == nullptr || present[i] != 0 ? 0x0000ffffu : 0u;
    const uint32_t odd_there = paired && (present == nullptr || present[i + 1] != 0) ? 0xffff0000u : 0u;
    for (int v = 0; v < kVectors; ++v) {
      panel.values[i / 2][v] = signs(static_cast<uint32_t>(even >> (8 * v)) & 0xff, static_cast<uint32_t>(odd >> (8 * v)) & 0xff,
                                     static_cast<int32_t>(even_there | odd_there));
    }
  }
}

template <int R>
void accumulate(const int16_t* g, int32_t length, int32_t first, int32_t count, const Panel& panel, int32_t* c) {
  for (int start = 0; start < kVectors; start += kAtOnce) {
    __m256i sum[R][kAtOnce];
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kAtOnce; ++v) {
        const __m256i before = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c + r * 64 + (start + v) * 8));
        sum[r][v] = first == 0 ? _mm256_setzero_si256() : before;
      }
    }
    for (int32_t i = 0; i < count; i += 2) {
      for (int r = 0; r < R; ++r) {
        const int16_t* from = g + static_cast<int64_t>(r) * length + first + i;
        int32_t pair = static_cast<uint16_t>(from[0]);
        if (i + 1 < count) std::memcpy(&pair, from, sizeof pair);
        const __m256i both = _mm256_set1_epi32(pair);
        for (int v = 0; v < kAtOnce; ++v) {
          sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(panel.values[i / 2][start + v], both));
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kAtOnce; ++v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(c + r * 64 + (start + v) * 8), sum[r][v]);
      }
    }
  }
}

}  // namespace

void sign_gemm_avx2(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  Panel panel;
  for (int32_t first = 0; first < length; first += 2 * kPairs) {
    const int32_t count = length - first < 2 * kPairs ? length - first : 2 * kPairs;
    unpack(bits + first, present == nullptr ? nullptr : present + first, count, panel);
    int32_t m = 0;
    for (; m + kRows <= rows; m += kRows) {
      accumulate<kRows>(g + static_cast<int64_t>(m) * length, length, first, count, panel, c + m * 64);
    }
    for (; m < rows; ++m) accumulate<1>(g + static_cast<int64_t>(m) * length, length, first, count, panel, c + m * 64);
  }
}

}  // namespace everbit
