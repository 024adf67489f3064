// The bits become +-1 numbers of the gradients' width in a panel that stays in the first-level cache. 16 bits: vmlal multiplies four of
// them by one gradient and adds to int32; mask and negate would take three instructions for what it does in two. 8 bits: eight of them to
// int16, which holds 258 terms (127 each), more than a panel has.
#include <arm_neon.h>

#include <cstring>

#include "sign_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kDepth = 64;  // a panel of 64 x 64 numbers
constexpr int32_t kStep = 4;    // gradients in one 64-bit load, 16 bits each
#if defined(__aarch64__)
constexpr int kRows = 4;  // 16 accumulators of 32 registers
#else
constexpr int kRows = 2;  // 8 accumulators of 16 registers
#endif
constexpr int kVectors = 4;  // in a tile: 16 columns of int32, 32 of int16
static_assert(kDepth <= 258, "int16 sums of 8-bit gradients stay exact");

template <typename T>
struct Panel {
  T values[kDepth][64];
};

void store_signs(int8_t* to, int8x8_t signs) { vst1_s8(to, signs); }
void store_signs(int16_t* to, int8x8_t signs) { vst1q_s16(to, vmovl_s8(signs)); }

// Rows `count` to the next multiple of kStep are 0.
template <typename T>
void unpack(const uint64_t* bits, const uint8_t* present, int32_t count, Panel<T>& panel) {
  const uint8x8_t bit = vcreate_u8(0x8040201008040201u);
  for (int32_t i = 0; i < (count + kStep - 1) / kStep * kStep; ++i) {
    if (i >= count || (present != nullptr && present[i] == 0)) {
      std::memset(panel.values[i], 0, sizeof panel.values[i]);
      continue;
    }
    for (int v = 0; v < 8; ++v) {
      // plus is -1 where the bit is set: -1 - 2 * plus is +1 there and -1 elsewhere.
      const int8x8_t plus = vreinterpret_s8_u8(vtst_u8(vdup_n_u8(static_cast<uint8_t>(bits[i] >> (8 * v))), bit));
      store_signs(panel.values[i] + 8 * v, vsub_s8(vdup_n_s8(-1), vadd_s8(plus, plus)));
    }
  }
}

// The next four gradients; 0 behind the last.
int16x4_t loaded(const int16_t* g, int32_t left) {
  if (left >= kStep) return vld1_s16(g);
  int16_t four[kStep] = {};
  std::memcpy(four, g, sizeof(int16_t) * static_cast<size_t>(left));
  return vld1_s16(four);
}

template <int R, int Lane>
void multiply(const int16_t* panel, const int16x4_t (&g)[R], int32x4_t (&sum)[R][kVectors]) {
  for (int v = 0; v < kVectors; ++v) {
    const int16x4_t signs = vld1_s16(panel + Lane * 64 + v * 4);
    for (int r = 0; r < R; ++r) sum[r][v] = vmlal_lane_s16(sum[r][v], signs, g[r], Lane);
  }
}

// Sums of `count` rows of B for R rows of G, added to C.
template <int R>
void accumulate(const int16_t* g, int32_t length, int32_t count, const Panel<int16_t>& panel, int32_t* c) {
  for (int start = 0; start < 64; start += 4 * kVectors) {
    int32x4_t sum[R][kVectors];
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kVectors; ++v) sum[r][v] = vld1q_s32(c + r * 64 + start + v * 4);
    }
    for (int32_t i = 0; i < count; i += kStep) {
      int16x4_t step[R];
      for (int r = 0; r < R; ++r) step[r] = loaded(g + static_cast<int64_t>(r) * length + i, count - i);
      const int16_t* signs = panel.values[i] + start;
      multiply<R, 0>(signs, step, sum);
      multiply<R, 1>(signs, step, sum);
      multiply<R, 2>(signs, step, sum);
      multiply<R, 3>(signs, step, sum);
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kVectors; ++v) vst1q_s32(c + r * 64 + start + v * 4, sum[r][v]);
    }
  }
}

template <int R>
void accumulate(const int8_t* g, int32_t length, int32_t count, const Panel<int8_t>& panel, int32_t* c) {
  for (int start = 0; start < 64; start += 8 * kVectors) {
    int16x8_t sum[R][kVectors];
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kVectors; ++v) sum[r][v] = vdupq_n_s16(0);
    }
    for (int32_t i = 0; i < count; ++i) {
      int8x8_t signs[kVectors];
      for (int v = 0; v < kVectors; ++v) signs[v] = vld1_s8(panel.values[i] + start + v * 8);
      for (int r = 0; r < R; ++r) {
        const int8x8_t by = vdup_n_s8(g[static_cast<int64_t>(r) * length + i]);
        for (int v = 0; v < kVectors; ++v) sum[r][v] = vmlal_s8(sum[r][v], signs[v], by);
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        int32_t* to = c + r * 64 + start + v * 8;
        vst1q_s32(to, vaddw_s16(vld1q_s32(to), vget_low_s16(sum[r][v])));
        vst1q_s32(to + 4, vaddw_s16(vld1q_s32(to + 4), vget_high_s16(sum[r][v])));
      }
    }
  }
}

template <typename T>
void product(const T* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  Panel<T> panel;
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

void sign_gemm_neon(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  product(g, rows, length, bits, present, c);
}

void sign_gemm_neon(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  product(g, rows, length, bits, present, c);
}

}  // namespace everbit
