// Sixteen values at once, on magnitudes, whose roundings half away from zero are half up: products of 64 bits in two halves, even and odd
// lanes, each rounded and shifted by 31; then the second rounding by each lane's exponent; then the sign.
#include <immintrin.h>

#include "../../number_types.h"
#include "requantize.h"

namespace everbit {
namespace {

struct Multiplier {
  __m512i mantissa, odd_mantissa, half, shift;
  __mmask16 negative;

  Multiplier(__m512i m, __m512i exponent)
      : mantissa(_mm512_abs_epi32(m)),
        odd_mantissa(_mm512_srli_epi64(mantissa, 32)),
        shift(_mm512_sub_epi32(_mm512_setzero_si512(), exponent)),
        negative(_mm512_movepi32_mask(m)) {
    half = _mm512_srli_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(1), shift), 1);
  }

  // scale32() of fixed_point.h, cut to +-2^20: beyond any 16-bit value and zero point, so that their sum fits.
  __m512i operator()(__m512i v) const {
    const __m512i far = _mm512_set1_epi32(1 << 20);
    const __m512i unit = _mm512_set1_epi64(int64_t{1} << 30);
    const __m512i size = _mm512_abs_epi32(v);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epu32(size, mantissa), unit);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epu32(_mm512_srli_epi64(size, 32), odd_mantissa), unit);
    // Bits 31 to 62 of each sum: below the odd one's, in its lane's upper half, lies the even one's.
    const __m512i high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    const __m512i magnitude = _mm512_min_epu32(_mm512_srlv_epi32(_mm512_add_epi32(high, half), shift), far);
    const __mmask16 down = _kxor_mask16(_mm512_movepi32_mask(v), negative);
    return _mm512_mask_sub_epi32(magnitude, down, _mm512_setzero_si512(), magnitude);
  }
};

inline void store(int8_t* to, __mmask16 there, __m512i v) { _mm_mask_storeu_epi8(to, there, _mm512_cvtsepi32_epi8(v)); }
inline void store(int16_t* to, __mmask16 there, __m512i v) { _mm256_mask_storeu_epi16(to, there, _mm512_cvtsepi32_epi16(v)); }

template <typename Y>
void rows(const ShortRequantizeCall& call) {
  const __m512i zero_point = _mm512_set1_epi32(call.zero_point);
  for (int32_t first = 0; first < call.channels; first += 16) {
    const int32_t rest = call.channels - first;
    const __mmask16 there = rest >= 16 ? 0xffff : static_cast<__mmask16>((1u << rest) - 1);
    const Multiplier multiplier =
        call.one_multiplier
            ? Multiplier(_mm512_set1_epi32(call.mantissa[0]), _mm512_set1_epi32(call.exponent[0]))
            : Multiplier(_mm512_maskz_loadu_epi32(there, call.mantissa + first),
                         _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(there, call.exponent + first)));
    const __m512i offset = _mm512_maskz_loadu_epi32(there, call.offset + first);
    const int32_t* sums = call.sums + first;
    Y* y = static_cast<Y*>(call.y) + first;
    for (int32_t p = 0; p < call.pixels; ++p, sums += call.channels, y += call.channels) {
      const __m512i scaled = multiplier(_mm512_add_epi32(_mm512_maskz_loadu_epi32(there, sums), offset));
      store(y, there, _mm512_add_epi32(scaled, zero_point));
    }
  }
}

}  // namespace

void short_requantize_avx512(const ShortRequantizeCall& call) {
  with_short_type(call.bits, [&](auto type) { rows<decltype(type)>(call); });
}

}  // namespace everbit
