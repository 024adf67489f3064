#include "int_gemm.h"

namespace everbit {
namespace {

template <typename A>
void int_gemm_any(const A* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  for (int32_t m = 0; m < rows; ++m, a += stride) {
    for (int32_t n = 0; n < columns; ++n) {
      const int8_t* column = w + static_cast<int64_t>(n) * length;
      int64_t sum = 0;
      for (int32_t k = 0; k < length; ++k) sum += int64_t{a[k]} * column[k];
      *c++ = sum;
    }
  }
}

}  // namespace

void int_gemm_scalar(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  int_gemm_any(a, rows, stride, length, w, columns, c);
}

void int_gemm_scalar(const int32_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  int_gemm_any(a, rows, stride, length, w, columns, c);
}

}  // namespace everbit
