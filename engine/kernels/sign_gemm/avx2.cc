// As avx512.cc, without VNNI: vpmaddwd multiplies 16 pairs of 16-bit numbers; for 8-bit ones vpmaddubsw multiplies 32 pairs first, whose
// sums of two fit 16 bits because a bit is 0 or 1. |g| <= 2^15 - 1, so that the two products vpmaddwd adds cannot overflow.
#include <immintrin.h>

#include <cstring>

#include "sign_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kGroups = 64;  // a panel of 64 x 256 bytes
constexpr int kVectors = 8;      // 64 columns, 8 to a vector
constexpr int kAtOnce = 2;       // vectors in a tile of kRows: 8 accumulators
constexpr int kRows = 4;

template <typename T>
constexpr int32_t kGroup = 4 / static_cast<int32_t>(sizeof(T));  // rows of B in 32 bits

template <typename T>
constexpr int32_t kPanel = kGroups * kGroup<T>;

struct Panel {
  __m256i values[kGroups][kVectors];
  uint8_t present[kPanel<int8_t>];  // 1 or 0; used where values cannot tell
};

template <typename T>
void unpack(const uint64_t* bits, const uint8_t* present, int32_t count, Panel& panel) {
  // Column 8 v + lane has bit `lane` in byte v of a word.
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i bit = sizeof(T) == 1 ? _mm256_mullo_epi32(lane, _mm256_set1_epi32(0x01010101))
                                     : _mm256_mullo_epi32(lane, _mm256_set1_epi32(0x00010001));
  for (int32_t i = 0, group = 0; i < count; i += kGroup<T>, ++group) {
    uint32_t there = 0;
    for (int32_t k = 0; k < kGroup<T>; ++k) {
      const bool found = i + k < count && (present == nullptr || present[i + k] != 0);
      there |= (found ? uint32_t{0xffffffffu} >> (32 - 8 * sizeof(T)) : 0u) << (8 * sizeof(T) * static_cast<size_t>(k));
    }
    for (int v = 0; v < kVectors; ++v) {
      uint32_t bytes = 0;
      for (int32_t k = 0; k < kGroup<T> && i + k < count; ++k) {
        bytes |= static_cast<uint32_t>((bits[i + k] >> (8 * v)) & 0xff) << (8 * sizeof(T) * static_cast<size_t>(k));
      }
      const __m256i masked = _mm256_and_si256(_mm256_set1_epi32(static_cast<int32_t>(bytes)), bit);
      __m256i value;
      if constexpr (sizeof(T) == 1) {
        value = _mm256_and_si256(_mm256_cmpeq_epi8(masked, bit), _mm256_set1_epi8(1));
      } else {
        const __m256i plus = _mm256_cmpeq_epi16(masked, bit);  // -1 where the bit is set: -1 - 2 * plus is +1 there and -1 elsewhere
        value = _mm256_sub_epi16(_mm256_set1_epi16(-1), _mm256_add_epi16(plus, plus));
      }
      panel.values[group][v] = _mm256_and_si256(value, _mm256_set1_epi32(static_cast<int32_t>(there)));
    }
  }
  if constexpr (sizeof(T) == 1) {
    for (int32_t i = 0; i < count; ++i) panel.present[i] = present == nullptr || present[i] != 0;
  }
}

inline __m256i add_products(__m256i sum, __m256i panel, __m256i g, int16_t) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(panel, g));
}

inline __m256i add_products(__m256i sum, __m256i panel, __m256i g, int8_t) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(panel, g), _mm256_set1_epi16(1)));
}

template <int R, typename T>
void accumulate(const T* g, int32_t length, int32_t first, int32_t count, const Panel& panel, int32_t* c) {
  int32_t offset[R] = {};  // sum of the gradients where something is present, for 8 bits
  for (int r = 0; sizeof(T) == 1 && r < R; ++r) {
    for (int32_t i = 0; i < count; ++i) offset[r] += panel.present[i] * g[static_cast<int64_t>(r) * length + first + i];
  }
  for (int start = 0; start < kVectors; start += kAtOnce) {
    __m256i sum[R][kAtOnce];
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kAtOnce; ++v) sum[r][v] = _mm256_setzero_si256();
    }
    for (int32_t i = 0, group = 0; i < count; i += kGroup<T>, ++group) {
      for (int r = 0; r < R; ++r) {
        const T* from = g + static_cast<int64_t>(r) * length + first + i;
        int32_t numbers = 0;
        if (count - i >= kGroup<T>) {
          std::memcpy(&numbers, from, sizeof numbers);
        } else {
          std::memcpy(&numbers, from, static_cast<size_t>(count - i) * sizeof(T));
        }
        const __m256i all = _mm256_set1_epi32(numbers);
        for (int v = 0; v < kAtOnce; ++v) sum[r][v] = add_products(sum[r][v], panel.values[group][start + v], all, T{});
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kAtOnce; ++v) {
        __m256i* to = reinterpret_cast<__m256i*>(c + r * 64 + (start + v) * 8);
        __m256i total = sum[r][v];
        if constexpr (sizeof(T) == 1) total = _mm256_sub_epi32(_mm256_add_epi32(total, total), _mm256_set1_epi32(offset[r]));
        if (first != 0) total = _mm256_add_epi32(total, _mm256_loadu_si256(to));
        _mm256_storeu_si256(to, total);
      }
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

void sign_gemm_avx2(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  product(g, rows, length, bits, present, c);
}

void sign_gemm_avx2(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  product(g, rows, length, bits, present, c);
}

}  // namespace everbit
