// sdot multiplies bytes, 16 products an instruction: of four columns, four rows of B each. The bits become +-1 bytes in a panel that stays
// in the first-level cache, four rows interleaved. A 16-bit gradient is cut in two signed bytes, g = 256 h + l + 128 with h = g >> 8 and
// l = (g & 255) - 128: the sum of g b is 256 (sum of h b) + sum of l b + 128 (sum of b), exact modulo 2^32 and hence exact.
#include <arm_neon.h>

#include <cstring>

#include "sign_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kDepth = 128;  // a panel of 128 x 64 bytes
constexpr int32_t kStep = 16;    // gradients in one vector of bytes
constexpr int kColumns = 16;     // of a tile
constexpr int kVectors = kColumns / 4;

struct Panel {
  int8_t values[kDepth / 4][64][4];
  int32_t sums[64];
};

// +1 or -1 by each of 16 bits.
int8x16_t signs_of(uint16_t bits) {
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
  const uint8x16_t bytes = vcombine_u8(vdup_n_u8(static_cast<uint8_t>(bits)), vdup_n_u8(static_cast<uint8_t>(bits >> 8)));
  // plus is -1 where the bit is set: -1 - 2 * plus is +1 there and -1 elsewhere.
  const int8x16_t plus = vreinterpretq_s8_u8(vtstq_u8(bytes, bit));
  return vsubq_s8(vdupq_n_s8(-1), vaddq_s8(plus, plus));
}

// Rows `count` to the next multiple of kStep are 0.
void unpack(const uint64_t* bits, const uint8_t* present, int32_t count, Panel& panel) {
  for (int32_t i = 0; i < (count + kStep - 1) / kStep * kStep; i += 4) {
    for (int32_t n = 0; n < 64; n += 16) {
      int8x16x4_t rows;
      for (int k = 0; k < 4; ++k) {
        const bool there = i + k < count && (present == nullptr || present[i + k] != 0);
        rows.val[k] = there ? signs_of(static_cast<uint16_t>(bits[i + k] >> n)) : vdupq_n_s8(0);
      }
      vst4q_s8(panel.values[i / 4][n], rows);
    }
  }
  for (int32_t n = 0; n < 64; n += 4) {
    int32x4_t sum = vdupq_n_s32(0);
    for (int32_t i = 0; i < count; i += 4) sum = vdotq_s32(sum, vld1q_s8(panel.values[i / 4][n]), vdupq_n_s8(1));
    vst1q_s32(panel.sums + n, sum);
  }
}

// Sixteen gradients as bytes: themselves, or high and low.
template <typename T>
struct Planes {
  int8x16_t plane[sizeof(T)];
};

Planes<int8_t> split(const int8_t* g) { return {{vld1q_s8(g)}}; }

Planes<int16_t> split(const int16_t* g) {
  const int8x16_t first = vreinterpretq_s8_s16(vld1q_s16(g)), second = vreinterpretq_s8_s16(vld1q_s16(g + 8));
  return {{vuzp2q_s8(first, second), veorq_s8(vuzp1q_s8(first, second), vdupq_n_s8(-128))}};
}

// 0 stands behind the last gradient, where the panel is 0 too.
template <typename T>
Planes<T> loaded(const T* g, int32_t left) {
  if (left >= kStep) return split(g);
  T padded[kStep] = {};
  std::memcpy(padded, g, sizeof(T) * static_cast<size_t>(left));
  return split(padded);
}

// Adds the products of group Lane of a step: four rows of B.
template <int Lane, typename T, int R>
void multiply(const int8_t (*group)[4], const Planes<T> (&g)[R], int32x4_t (&sum)[R][sizeof(T)][kVectors]) {
  for (int v = 0; v < kVectors; ++v) {
    const int8x16_t signs = vld1q_s8(group[64 * Lane + 4 * v]);
    for (int r = 0; r < R; ++r) {
      for (size_t p = 0; p < sizeof(T); ++p) sum[r][p][v] = vdotq_laneq_s32(sum[r][p][v], signs, g[r].plane[p], Lane);
    }
  }
}

// Sums of `count` rows of B for R rows of G, added to C.
template <int R, typename T>
void accumulate(const T* g, int32_t length, int32_t count, const Panel& panel, int32_t* c) {
  for (int start = 0; start < 64; start += kColumns) {
    int32x4_t sum[R][sizeof(T)][kVectors];
    for (auto& row : sum) {
      for (auto& plane : row) {
        for (int32x4_t& vector : plane) vector = vdupq_n_s32(0);
      }
    }
    for (int32_t i = 0; i < count; i += kStep) {
      Planes<T> step[R];
      for (int r = 0; r < R; ++r) step[r] = loaded(g + static_cast<int64_t>(r) * length + i, count - i);
      const int8_t(*group)[4] = panel.values[i / 4] + start;
      multiply<0>(group, step, sum);
      multiply<1>(group, step, sum);
      multiply<2>(group, step, sum);
      multiply<3>(group, step, sum);
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        int32x4_t total = sum[r][0][v];
        if constexpr (sizeof(T) == 2) {
          const int32x4_t offset = vshlq_n_s32(vld1q_s32(panel.sums + start + 4 * v), 7);
          total = vaddq_s32(vaddq_s32(vshlq_n_s32(total, 8), sum[r][1][v]), offset);
        }
        int32_t* to = c + r * 64 + start + 4 * v;
        vst1q_s32(to, vaddq_s32(vld1q_s32(to), total));
      }
    }
  }
}

template <typename T>
void product(const T* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  constexpr int kRows = sizeof(T) == 1 ? 4 : 2;  // 16 accumulators of 32 registers
  Panel panel;
  std::memset(c, 0, static_cast<size_t>(rows) * 64 * sizeof(int32_t));
  for (int32_t first = 0; first < length; first += kDepth) {
    const int32_t count = length - first < kDepth ? length - first : kDepth;
    unpack(bits + first, present == nullptr ? nullptr : present + first, count, panel);
    const T* from = g + first;
    int32_t m = 0;
    for (; m + kRows <= rows; m += kRows) accumulate<kRows>(from + static_cast<int64_t>(m) * length, length, count, panel, c + m * 64);
    for (; m < rows; ++m) accumulate<1>(from + static_cast<int64_t>(m) * length, length, count, panel, c + m * 64);
  }
}

}  // namespace

void sign_gemm_neon_dotprod(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  product(g, rows, length, bits, present, c);
}

void sign_gemm_neon_dotprod(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  product(g, rows, length, bits, present, c);
}

}  // namespace everbit
