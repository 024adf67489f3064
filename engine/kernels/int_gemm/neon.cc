// vmlal on 4 products. A step adds 2 products to each lane of its two sums, so that they take 255 steps before they must be emptied into
// int64 (int_gemm.h: 511 terms are exact). The weights of a column are widened once for all rows.
#include <arm_neon.h>

#include <cstring>

#include "int_gemm.h"

namespace everbit {
namespace {

constexpr int32_t kStepsAtOnce = 32;
static_assert(kStepsAtOnce * 2 <= 511, "int32 sums stay exact");

struct Weights {
  int16x8_t low, high;
};

Weights widened(const int8_t* w, int32_t count) {
  int8_t bytes[kIntGemmStep] = {};
  std::memcpy(bytes, w, static_cast<size_t>(count < kIntGemmStep ? count : kIntGemmStep));
  return {vmovl_s8(vld1_s8(bytes)), vmovl_s8(vld1_s8(bytes + 8))};
}

int64_t fold(int32x4_t sums) {
  const int64x2_t two = vpaddlq_s32(sums);
  return vgetq_lane_s64(two, 0) + vgetq_lane_s64(two, 1);
}

// Adds `steps` steps of one column to C.
void add_steps(const int16_t* a, int32_t rows, int32_t stride, const Weights* weights, int32_t steps, int32_t columns, int64_t* c) {
  for (int32_t m = 0; m < rows; ++m) {
    const int16_t* row = a + static_cast<int64_t>(m) * stride;
    int32x4_t even = vdupq_n_s32(0), odd = vdupq_n_s32(0);
    for (int32_t step = 0; step < steps; ++step) {
      const int16x8_t low = vld1q_s16(row + step * kIntGemmStep), high = vld1q_s16(row + step * kIntGemmStep + 8);
      even = vmlal_s16(even, vget_low_s16(low), vget_low_s16(weights[step].low));
      odd = vmlal_s16(odd, vget_high_s16(low), vget_high_s16(weights[step].low));
      even = vmlal_s16(even, vget_low_s16(high), vget_low_s16(weights[step].high));
      odd = vmlal_s16(odd, vget_high_s16(high), vget_high_s16(weights[step].high));
    }
    c[static_cast<int64_t>(m) * columns] += fold(even) + fold(odd);
  }
}

}  // namespace

void int_gemm_neon(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  for (int64_t i = 0; i < int64_t{rows} * columns; ++i) c[i] = 0;
  const int32_t steps = stride / kIntGemmStep;
  Weights weights[kStepsAtOnce];
  for (int32_t n = 0; n < columns; ++n) {
    const int8_t* column = w + static_cast<int64_t>(n) * length;
    for (int32_t first = 0; first < steps; first += kStepsAtOnce) {
      const int32_t count = steps - first < kStepsAtOnce ? steps - first : kStepsAtOnce;
      for (int32_t step = 0; step < count; ++step) {
        const int32_t at = (first + step) * kIntGemmStep;
        weights[step] = widened(column + at, length - at);
      }
      add_steps(a + first * kIntGemmStep, rows, stride, weights, count, columns, c + n);
    }
  }
}

}  // namespace everbit
