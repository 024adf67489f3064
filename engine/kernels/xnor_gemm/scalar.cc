#include "../../bits.h"
#include "xnor_gemm.h"

namespace everbit {

void xnor_gemm_scalar(const uint64_t* a, int32_t rows, int32_t words, const uint64_t* b, int32_t columns, int32_t K, int16_t* c) {
  for (int32_t m = 0; m < rows; ++m, a += words, c += columns) {
    for (int32_t n = 0; n < columns; ++n) {
      const uint64_t* column = b + (n / 8) * words * 8 + n % 8;
      int32_t differing = 0;
      for (int32_t w = 0; w < words; ++w) differing += popcount(a[w] ^ column[w * 8]);
      c[n] = static_cast<int16_t>(K - 2 * differing);
    }
  }
}

}  // namespace everbit
