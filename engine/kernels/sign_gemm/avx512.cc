// The bits become +-1 words of 16 bits in a panel that stays in the first-level cache: rows i and i + 1 interleaved, so that vpdpwssd
// (32 products an instruction) takes a pair of gradients by one 32-bit broadcast. pdep interleaves the two rows' bits into a blend mask.
#include <immintrin.h>

#include <cstring>

#include "sign_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kPairs = 96;   // a panel of 96 x 256 bytes
constexpr int kVectors = 4;      // 64 columns, 16 to a vector
constexpr int kRows = 6;         // 24 accumulators + 4 of the panel

struct Panel {
  __m512i values[kPairs][kVectors];
};

__m512i signs(uint32_t even, uint32_t odd, bool even_present, bool odd_present) {
  const __mmask32 plus = _pdep_u32(even, 0x55555555u) | _pdep_u32(odd, 0xaaaaaaaau);
  const __mmask32 there = (even_present ? 0x55555555u : 0u) | (odd_present ? 0xaaaaaaaau : 0u);
  return _mm512_maskz_mov_epi16(there, _mm512_mask_blend_epi16(plus, _mm512_set1_epi16(-1), _mm512_set1_epi16(1)));
}

void unpack(const uint64_t* bits, const uint8_t* present, int32_t count, Panel& panel) {
  for (int32_t i = 0; i < count; i += 2) {
    const bool paired = i + 1 < count;
    const uint64_t even = bits[i];
    const uint64_t odd = paired ? bits[i + 1] : 0;
    const bool even_present = present == nullptr || present[i] != 0;
    const bool odd_present = paired && (present == nullptr || present[i + 1] != 0);
    for (int v = 0; v < kVectors; ++v) {
      panel.values[i / 2][v] = signs(static_cast<uint32_t>(even >> (16 * v)) & 0xffff, static_cast<uint32_t>(odd >> (16 * v)) & 0xffff,
                                     even_present, odd_present);
    }
  }
}

template <int R>
void accumulate(const int16_t* g, int32_t length, int32_t first, int32_t count, const Panel& panel, int32_t* c) {
  __m512i sum[R][kVectors];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = first == 0 ? _mm512_setzero_si512() : _mm512_loadu_si512(c + r * 64 + v * 16);
    }
  }
  const int32_t pairs = count / 2;
  for (int32_t p = 0; p < pairs; ++p) {
    for (int r = 0; r < R; ++r) {
      int32_t pair;
      std::memcpy(&pair, g + static_cast<int64_t>(r) * length + first + 2 * p, sizeof pair);
      const __m512i both = _mm512_set1_epi32(pair);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpwssd_epi32(sum[r][v], panel.values[p][v], both);
    }
  }
  if ((count & 1) != 0) {
    for (int r = 0; r < R; ++r) {
      const __m512i last = _mm512_set1_epi32(static_cast<uint16_t>(g[static_cast<int64_t>(r) * length + first + count - 1]));
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpwssd_epi32(sum[r][v], panel.values[pairs][v], last);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(c + r * 64 + v * 16, sum[r][v]);
  }
}

}  // namespace

void sign_gemm_avx512(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
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
