// sdot multiplies bytes, 16 products an instruction. A 16-bit value is cut in two signed bytes, a = 256 h + l + 128, with h = a >> 8 and
// l = (a & 255) - 128: the sum over a w is 256 (sum of h w) + sum of l w + 128 (sum of w). A row is cut once for four columns. A lane takes
// 128 products of at most 2^14 before its int32 sum is emptied into int64.
#include <arm_neon.h>

#include <cstring>

#include "int_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kStepsAtOnce = 32;
constexpr int kColumns = 4;

struct Panel {
  int8x16_t weights[kStepsAtOnce][kColumns];
  int64_t sums[kColumns];
};

int8x16_t loaded(const int8_t* w, int32_t count) {
  int8_t bytes[kIntGemmStep] = {};
  std::memcpy(bytes, w, static_cast<size_t>(count < kIntGemmStep ? count : kIntGemmStep));
  return vld1q_s8(bytes);
}

// Steps `first` to `first + steps` of `columns` columns; the others, up to kColumns, are 0.
void load(const int8_t* w, int32_t length, int32_t columns, int32_t first, int32_t steps, Panel& panel) {
  for (int n = 0; n < kColumns; ++n) {
    int32x4_t sum = vdupq_n_s32(0);
    for (int32_t step = 0; step < steps; ++step) {
      const int32_t at = (first + step) * kIntGemmStep;
      panel.weights[step][n] = n < columns ? loaded(w + static_cast<int64_t>(n) * length + at, length - at) : vdupq_n_s8(0);
      sum = vdotq_s32(sum, panel.weights[step][n], vdupq_n_s8(1));
    }
    panel.sums[n] = vaddlvq_s32(sum);
  }
}

void add_steps(const int16_t* row, int32_t steps, const Panel& panel, int32_t columns, int64_t* c) {
  int32x4_t high[kColumns], low[kColumns];
  for (int n = 0; n < kColumns; ++n) high[n] = low[n] = vdupq_n_s32(0);
  for (int32_t step = 0; step < steps; ++step) {
    const int8x16_t first = vreinterpretq_s8_s16(vld1q_s16(row + step * kIntGemmStep));
    const int8x16_t second = vreinterpretq_s8_s16(vld1q_s16(row + step * kIntGemmStep + 8));
    const int8x16_t l = veorq_s8(vuzp1q_s8(first, second), vdupq_n_s8(-128));
    const int8x16_t h = vuzp2q_s8(first, second);
    for (int n = 0; n < kColumns; ++n) {
      high[n] = vdotq_s32(high[n], h, panel.weights[step][n]);
      low[n] = vdotq_s32(low[n], l, panel.weights[step][n]);
    }
  }
  for (int n = 0; n < columns; ++n) c[n] += 256 * vaddlvq_s32(high[n]) + vaddlvq_s32(low[n]) + 128 * panel.sums[n];
}

}  // namespace

void int_gemm_neon_dotprod(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  for (int64_t i = 0; i < int64_t{rows} * columns; ++i) c[i] = 0;
  const int32_t steps = stride / kIntGemmStep;
  Panel panel;
  for (int32_t n = 0; n < columns; n += kColumns) {
    const int32_t wide = columns - n < kColumns ? columns - n : kColumns;
    for (int32_t first = 0; first < steps; first += kStepsAtOnce) {
      const int32_t count = steps - first < kStepsAtOnce ? steps - first : kStepsAtOnce;
      load(w + static_cast<int64_t>(n) * length, length, wide, first, count, panel);
      for (int32_t m = 0; m < rows; ++m) {
        const int16_t* row = a + static_cast<int64_t>(m) * stride + first * kIntGemmStep;
        add_steps(row, count, panel, wide, c + static_cast<int64_t>(m) * columns + n);
      }
    }
  }
}

}  // namespace everbit
