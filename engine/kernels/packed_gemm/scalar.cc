#include "packed_gemm.h"

namespace everbit {
namespace {

template <typename X>
void product(const PackedGemmCall& call) {
  constexpr int32_t kStep = 4 / sizeof(X);
  const int32_t steps = packed_steps(call.length, call.bits);
  for (int32_t m = 0; m < call.rows; ++m) {
    for (int32_t n = 0; n < call.columns; ++n) {
      const uint32_t* word = call.packed + int64_t{n / kPackedColumns} * call.segments * steps * kPackedColumns + n % kPackedColumns;
      int32_t sum = 0;
      for (int32_t s = 0; s < call.segments; ++s, word += int64_t{steps} * kPackedColumns) {
        const X* a = static_cast<const X*>(call.a) + m * call.stride + s * call.segment_stride;
        for (int32_t k = 0; k < call.length; ++k) {
          sum += a[k] * static_cast<X>(word[int64_t{k / kStep} * kPackedColumns] >> (k % kStep * 8 * sizeof(X)));
        }
      }
      call.c[int64_t{m} * call.columns + n] = sum;
    }
  }
}

}  // namespace

void packed_gemm_scalar(const PackedGemmCall& call) {
  if (call.bits == 8) {
    product<int8_t>(call);
  } else {
    product<int16_t>(call);
  }
}

}  // namespace everbit
