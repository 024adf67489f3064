#include "sign_gemm.h"

namespace everbit {
namespace {

template <typename T, typename Sum>
void sign_gemm_any(const T* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, Sum* c) {
  for (int32_t m = 0; m < rows; ++m, g += length, c += 64) {
    for (int n = 0; n < 64; ++n) c[n] = 0;
    for (int32_t i = 0; i < length; ++i) {
      if (g[i] == 0 || (present != nullptr && present[i] == 0)) continue;
      const Sum v = g[i];
      const uint64_t word = bits[i];
      for (int n = 0; n < 64; ++n) c[n] += ((word >> n) & 1) != 0 ? v : -v;
    }
  }
}

}  // namespace

void sign_gemm_scalar(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  sign_gemm_any(g, rows, length, bits, present, c);
}

void sign_gemm_scalar(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  sign_gemm_any(g, rows, length, bits, present, c);
}

void sign_gemm_scalar(const int32_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int64_t* c) {
  sign_gemm_any(g, rows, length, bits, present, c);
}

}  // namespace everbit
