// vpdpbusd: 64 products of unsigned and signed bytes; the values are the unsigned ones, q + 128, and the sum of the weights times 128,
// which the same instruction finds, is where the sums start. vpdpwssd: 32 products of 16-bit values. A step broadcasts 32 bits of each
// row to four vectors of columns: 16 products for 4 loads and 4 broadcasts.
#include <immintrin.h>

#include <cstring>

#include "packed_gemm.h"

namespace everbit {
namespace {

constexpr int kRows = 4;
constexpr int kBlocks = 4;  // of columns

template <typename X>
inline __m512i multiply(__m512i sum, uint32_t values, __m512i weights) {
  if constexpr (sizeof(X) == 1) {
    return _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(static_cast<int32_t>(values ^ 0x80808080u)), weights);
  } else {
    return _mm512_dpwssd_epi32(sum, _mm512_set1_epi32(static_cast<int32_t>(values)), weights);
  }
}

// Rows from `m` on and the columns of N vectors from `first` on.
template <typename X, int R, int N>
void tile(const PackedGemmCall& call, int32_t m, int32_t first, const __m512i* packed, const __m512i* start) {
  constexpr int32_t kStep = 4 / sizeof(X);
  const int32_t steps = packed_steps(call.length, call.bits);
  const int32_t all_steps = steps * call.segments;
  const int64_t stride = call.stride;
  __m512i sum[R][N];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[r][n] = start[n];
  }
  const X* segment = static_cast<const X*>(call.a) + m * stride;
  for (int32_t s = 0; s < call.segments; ++s, segment += call.segment_stride, packed += steps) {
    const X* a = segment;
    for (int32_t k = 0; k < steps; ++k, a += kStep) {
      __m512i weights[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) weights[n] = packed[int64_t{n} * all_steps + k];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        uint32_t values;
        std::memcpy(&values, a + r * stride, sizeof values);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) sum[r][n] = multiply<X>(sum[r][n], values, weights[n]);
      }
    }
  }
  int32_t* c = call.c + int64_t{m} * call.columns + first;
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const int32_t rest = call.columns - first - 16 * n;
      const __mmask16 there = rest >= 16 ? 0xffff : static_cast<__mmask16>((1u << rest) - 1);
      _mm512_mask_storeu_epi32(c + int64_t{r} * call.columns + 16 * n, there, sum[r][n]);
    }
  }
}

template <typename X, int N>
void columns_of(const PackedGemmCall& call, int32_t first) {
  const int32_t steps = packed_steps(call.length, call.bits) * call.segments;
  const __m512i* packed = reinterpret_cast<const __m512i*>(call.packed) + int64_t{first / kPackedColumns} * steps;
  __m512i start[N];
  for (int n = 0; n < N; ++n) {
    start[n] = _mm512_setzero_si512();
    if constexpr (sizeof(X) == 1) {
      __m512i sum = _mm512_setzero_si512();
      for (int32_t k = 0; k < steps; ++k) sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), packed[int64_t{n} * steps + k]);
      start[n] = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sum, 7));
    }
  }
  int32_t m = 0;
  for (; m + kRows <= call.rows; m += kRows) tile<X, kRows, N>(call, m, first, packed, start);
  for (; m < call.rows; ++m) tile<X, 1, N>(call, m, first, packed, start);
}

template <typename X>
void product(const PackedGemmCall& call) {
  for (int32_t n = 0; n < call.columns; n += kPackedColumns * kBlocks) {
    switch ((call.columns - n + kPackedColumns - 1) / kPackedColumns) {
      case 1: columns_of<X, 1>(call, n); break;
      case 2: columns_of<X, 2>(call, n); break;
      case 3: columns_of<X, 3>(call, n); break;
      default: columns_of<X, kBlocks>(call, n);
    }
  }
}

}  // namespace

void packed_gemm_avx512(const PackedGemmCall& call) {
  if (call.bits == 8) {
    product<int8_t>(call);
  } else {
    product<int16_t>(call);
  }
}

}  // namespace everbit
