// The bits become +-1 words of 16 bits in a panel that stays in the first-level cache; vmlal multiplies four of them by one gradient and
// adds to int32. Mask and negate would take three instructions for what vmlal does in two.
#include <arm_neon.h>

#include <cstring>

#include "sign_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kDepth = 64;  // a panel of 64 x 128 bytes
constexpr int32_t kStep = 4;    // gradients in one 64-bit load
constexpr int kColumns = 16;    // of a tile
constexpr int kVectors = kColumns / 4;
#if defined(__aarch64__)
constexpr int kRows = 4;  // 16 accumulators of 32 registers
#else
constexpr int kRows = 2;  // 8 accumulators of 16 registers
#endif

struct Panel {
  int16_t values[kDepth][64];
};

// Rows `count` to the next multiple of kStep are 0.
void unpack(const uint64_t* bits, const uint8_t* present, int32_t count, Panel& panel) {
  const uint8x8_t bit = vcreate_u8(0x8040201008040201u);
  for (int32_t i = 0; i < (count + kStep - 1) / kStep * kStep; ++i) {
    if (i >= count || (present != nullptr && present[i] == 0)) {
      std::memset(panel.values[i], 0, sizeof panel.values[i]);
      continue;
    }
    for (int v = 0; v < 8; ++v) {
      // plus is -1 where the bit is set: -1 - 2 * plus is +1 there and -1 elsewhere.
      const int8x8_t plus = vreinterpret_s8_u8(vtst_u8(vdup_n_u8(static_cast<uint8_t>(bits[i] >> (8 * v))), bit));
      vst1q_s16(panel.values[i] + 8 * v, vmovl_s8(vsub_s8(vdup_n_s8(-1), vadd_s8(plus, plus))));
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

template <int R>
void accumulate(const int16_t* g, int32_t length, int32_t first, int32_t count, const Panel& panel, int32_t* c) {
  for (int start = 0; start < 64; start += kColumns) {
    int32x4_t sum[R][kVectors];
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < kVectors; ++v) sum[r][v] = first == 0 ? vdupq_n_s32(0) : vld1q_s32(c + r * 64 + start + v * 4);
    }
    for (int32_t i = 0; i < count; i += kStep) {
      int16x4_t step[R];
      for (int r = 0; r < R; ++r) {
        step[r] = loaded(g + static_cast<int64_t>(r) * length + first + i, count - i);
      }
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

}  // namespace

void sign_gemm_neon(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  Panel panel;
  for (int32_t first = 0; first < length; first += kDepth) {
    const int32_t count = length - first < kDepth ? length - first : kDepth;
    unpack(bits + first, present == nullptr ? nullptr : present + first, count, panel);
    int32_t m = 0;
    for (; m + kRows <= rows; m += kRows) {
      accumulate<kRows>(g + static_cast<int64_t>(m) * length, length, first, count, panel, c + m * 64);
    }
    for (; m < rows; ++m) accumulate<1>(g + static_cast<int64_t>(m) * length, length, first, count, panel, c + m * 64);
  }
}

}  // namespace everbit
