#include "../isa.h"

#if defined(EVERBIT_HAS_DSP)
#include <arm_acle.h>

#include <cstdint>

#include "xnor_gemm.h"

namespace everbit {
namespace {

// There is no popcount, but USADA8 adds four bytes at once. The masks are kept in registers, which the compiler would not do with
// constants: an AND of two registers shifts one of them for nothing.
struct Masks {
  uint32_t pairs = 0x55555555, nibbles = 0x33333333, bytes = 0x0f0f0f0f;

  Masks() { __asm__("" : "+r"(pairs), "+r"(nibbles), "+r"(bytes)); }

  // Bits of each group of four, 0 to 4.
  uint32_t in_nibbles(uint32_t x) const {
    x -= pairs & (x >> 1);
    return (nibbles & x) + (nibbles & (x >> 2));
  }
  // Of each group of eight, from sums of up to three words by groups of four.
  uint32_t in_bytes(uint32_t x) const { return (bytes & x) + (bytes & (x >> 4)); }
};

inline uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }
inline uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

// N columns side by side, an even first one: they stand in one block.
template <int N>
inline void columns_of(const uint64_t* a, int32_t words, const uint64_t* b, const Masks& masks, int32_t K, int16_t* c) {
  uint32_t differing[N] = {};
  for (int32_t w = 0; w < words; ++w, b += 8) {
    const uint64_t x = a[w];
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) {
      const uint32_t nibbles = masks.in_nibbles(low(x) ^ low(b[n])) + masks.in_nibbles(high(x) ^ high(b[n]));
      differing[n] = __usada8(masks.in_bytes(nibbles), 0, differing[n]);
    }
  }
  for (int n = 0; n < N; ++n) c[n] = static_cast<int16_t>(K - 2 * static_cast<int32_t>(differing[n]));
}

}  // namespace

void xnor_gemm_dsp(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  const Masks masks;
  for (int32_t m = 0; m < rows; ++m, a += words, c += columns) {
    int32_t n = 0;
    for (; n + 2 <= columns; n += 2) columns_of<2>(a, words, b + (n / 8) * words * 8 + n % 8, masks, K, c + n);
    if (n < columns) columns_of<1>(a, words, b + (n / 8) * words * 8 + n % 8, masks, K, c + n);
  }
}

}  // namespace everbit
#endif
