// Integer matrix product of 8 or 16-bit values and 8-bit weights whose sums fit 32 bits: C[m][n] = sum over k of A[m][k] * W[n][k].
//
// A row of A consists of segments, which need not lie side by side: the rows under a window of an image are read where they stand. The
// weights are packed once, for all rows: blocks of 16 columns, [columns / 16][segments][steps][16] words of 32 bits, a word the weights of
// four consecutive k (8-bit values) or two (16-bit values) of a segment; what is missing is 0. Up to packed_step() - 1 values behind a
// segment are read and meet weights of 0. C: rows x columns.
// Bound: the sum over k of |A| |W| must be below 2^31 for every column, |A| being 2^7 or 2^15; and below 2^30 for 8-bit values, which
// vpdpbusd takes as unsigned ones, 128 larger.
#pragma once

#include <cstddef>
#include <cstdint>

namespace everbit {

constexpr int32_t kPackedColumns = 16;

// Terms of one step.
inline int32_t packed_step(int32_t bits) { return bits == 8 ? 4 : 2; }

inline int32_t packed_steps(int32_t length, int32_t bits) { return (length + packed_step(bits) - 1) / packed_step(bits); }

// Words of packed weights.
inline size_t packed_words(int32_t segments, int32_t length, int32_t columns, int32_t bits) {
  const size_t steps = static_cast<size_t>(segments) * static_cast<size_t>(packed_steps(length, bits));
  return static_cast<size_t>((columns + kPackedColumns - 1) / kPackedColumns) * steps * kPackedColumns;
}

struct PackedGemmCall {
  const void* a;
  int32_t bits;  // of a
  int32_t rows;
  int64_t stride;          // values from a row to the next
  int32_t segments;
  int64_t segment_stride;  // values from a segment to the next
  int32_t length;          // of a segment
  const uint32_t* packed;
  int32_t columns;
  int32_t* c;
};

// w: columns x segments x length.
using PackWeights = void(const int8_t* w, int32_t segments, int32_t length, int32_t columns, int32_t bits, uint32_t* packed);
using PackedGemm = void(const PackedGemmCall&);

// Whether any instruction set of this build has a kernel: where none has, no memory is planned for packed weights.
#if defined(EVERBIT_HAS_X86)
constexpr bool kPackedGemmExists = true;
#else
constexpr bool kPackedGemmExists = false;
#endif

// Whether the active instruction set has a kernel; int_gemm() is faster without.
bool packed_gemm_is_fast();

PackWeights pack_weights;

PackedGemm packed_gemm_scalar;
PackedGemm packed_gemm_avx512;
PackedGemm packed_gemm;

}  // namespace everbit
