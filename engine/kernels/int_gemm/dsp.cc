#include "../isa.h"

#if defined(EVERBIT_HAS_DSP)
#include "../pairs_dsp.h"
#include "int_gemm.h"

namespace everbit {
namespace {

// One column of R rows, so that the weights are widened once for all of them.
template <int R>
void column_of_rows(const int16_t* a, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  int64_t sums[R] = {};
  int32_t k = 0;
  for (; k + 4 <= length; k += 4) {
    const Pairs weights = load_pairs(w + k);
#pragma GCC unroll 2
    for (int r = 0; r < R; ++r) {
      const Pairs values = load_pairs(a + int64_t{r} * stride + k);
      sums[r] = __smlald(values.low, weights.low, sums[r]);
      sums[r] = __smlald(values.high, weights.high, sums[r]);
    }
  }
  for (; k < length; ++k) {
    for (int r = 0; r < R; ++r) sums[r] += a[int64_t{r} * stride + k] * w[k];
  }
  for (int r = 0; r < R; ++r) c[int64_t{r} * columns] = sums[r];
}

}  // namespace

void int_gemm_dsp(const int16_t* a, int32_t rows, int32_t stride, int32_t length, const int8_t* w, int32_t columns, int64_t* c) {
  int32_t m = 0;
  for (; m + 2 <= rows; m += 2, a += 2 * int64_t{stride}, c += 2 * int64_t{columns}) {
    for (int32_t n = 0; n < columns; ++n) column_of_rows<2>(a, stride, length, w + int64_t{n} * length, columns, c + n);
  }
  for (int32_t n = 0; m < rows && n < columns; ++n) column_of_rows<1>(a, stride, length, w + int64_t{n} * length, columns, c + n);
}

}  // namespace everbit
#endif
