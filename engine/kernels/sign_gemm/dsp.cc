// SMLAD adds two gradients times +1 or -1 to a sum. The signs of a block of terms are spread to halves of words once, for all rows.
#include "../isa.h"

#if defined(EVERBIT_HAS_DSP)
#include <arm_acle.h>

#include <cstdint>

#include "sign_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kTerms = 32;
constexpr int32_t kPairs = kTerms / 2;
constexpr int32_t kColumns = 64;

// [column][pair]: +1, -1, or 0 where the term is absent.
using Signs = uint32_t[kColumns][kPairs];

void spread(const uint64_t* bits, const uint8_t* present, int32_t count, Signs& signs) {
  constexpr uint32_t kSigns[4] = {0xffffffff, 0xffff0001, 0x0001ffff, 0x00010001};
  const auto is_present = [&](int32_t i) { return i < count && (present == nullptr || present[i] != 0); };
  for (int32_t p = 0; p < kPairs; ++p) {
    const uint32_t mask = (is_present(2 * p) ? 0x0000ffff : 0) | (is_present(2 * p + 1) ? 0xffff0000 : 0);
    const uint64_t first = mask & 1 ? bits[2 * p] : 0, second = mask >> 31 ? bits[2 * p + 1] : 0;
    for (int half = 0; half < 2; ++half) {
      uint32_t a = static_cast<uint32_t>(first >> (32 * half)), b = static_cast<uint32_t>(second >> (32 * half));
      for (int32_t n = 32 * half; n < 32 * half + 32; ++n, a >>= 1, b >>= 1) {
        signs[n][p] = kSigns[(a & 1) | (b & 1) << 1] & mask;
      }
    }
  }
}

template <typename T>
void gather(const T* g, int32_t count, uint32_t* pairs) {
  const auto half = [&](int32_t i) { return i < count ? static_cast<uint32_t>(static_cast<uint16_t>(int16_t{g[i]})) : 0u; };
  for (int32_t p = 0; p < kPairs; ++p) pairs[p] = half(2 * p) | half(2 * p + 1) << 16;
}

// R rows times two columns, so that each word read serves more than one product.
template <int R>
void add_rows(const uint32_t (&g)[R][kPairs], const Signs& signs, int32_t* c) {
  for (int32_t n = 0; n < kColumns; n += 2) {
    int32_t sums[R][2];
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      sums[r][0] = c[r * kColumns + n];
      sums[r][1] = c[r * kColumns + n + 1];
    }
    for (int32_t p = 0; p < kPairs; ++p) {
      const uint32_t first = signs[n][p], second = signs[n + 1][p];
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        sums[r][0] = __smlad(g[r][p], first, sums[r][0]);
        sums[r][1] = __smlad(g[r][p], second, sums[r][1]);
      }
    }
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      c[r * kColumns + n] = sums[r][0];
      c[r * kColumns + n + 1] = sums[r][1];
    }
  }
}

template <int R, typename T>
void rows_of(const T* g, int32_t length, int32_t count, const Signs& signs, int32_t* c) {
  uint32_t pairs[R][kPairs];
  for (int r = 0; r < R; ++r) gather(g + int64_t{r} * length, count, pairs[r]);
  add_rows<R>(pairs, signs, c);
}

template <typename T>
void sign_gemm_any(const T* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  Signs signs;
  for (int32_t i = 0; i < rows * kColumns; ++i) c[i] = 0;
  for (int32_t first = 0; first < length; first += kTerms) {
    const int32_t count = length - first < kTerms ? length - first : kTerms;
    spread(bits + first, present == nullptr ? nullptr : present + first, count, signs);
    int32_t m = 0;
    for (; m + 2 <= rows; m += 2) rows_of<2>(g + int64_t{m} * length + first, length, count, signs, c + m * kColumns);
    if (m < rows) rows_of<1>(g + int64_t{m} * length + first, length, count, signs, c + m * kColumns);
  }
}

}  // namespace

void sign_gemm_dsp(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  sign_gemm_any(g, rows, length, bits, present, c);
}

void sign_gemm_dsp(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  sign_gemm_any(g, rows, length, bits, present, c);
}

}  // namespace everbit
#endif
