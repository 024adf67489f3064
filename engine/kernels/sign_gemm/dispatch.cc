#include "../isa.h"
#include "sign_gemm.h"

namespace everbit {

void sign_gemm(const int8_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  constexpr KernelTable<SignGemm8> kTable = {sign_gemm_scalar, EVERBIT_X86(sign_gemm_avx2), EVERBIT_X86(sign_gemm_avx512),
                                             EVERBIT_AMX(sign_gemm_amx), EVERBIT_NEON(sign_gemm_neon),
                                             EVERBIT_NEON_DOTPROD(sign_gemm_neon_dotprod), EVERBIT_DSP(sign_gemm_dsp)};
  kTable.active()(g, rows, length, bits, present, c);
}

void sign_gemm(const int16_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int32_t* c) {
  constexpr KernelTable<SignGemm16> kTable = {sign_gemm_scalar, EVERBIT_X86(sign_gemm_avx2), EVERBIT_X86(sign_gemm_avx512),
                                              EVERBIT_AMX(sign_gemm_amx), EVERBIT_NEON(sign_gemm_neon),
                                              EVERBIT_NEON_DOTPROD(sign_gemm_neon_dotprod), EVERBIT_DSP(sign_gemm_dsp)};
  kTable.active()(g, rows, length, bits, present, c);
}

namespace {

// 32-bit gradients as three numbers of 11 bits and a sign, g = 2^22 part[2] + 2^11 part[1] + part[0], block by block.
constexpr int kParts = 3;
constexpr int kPartBits = 11;
constexpr int32_t kBlockRows = 96;
constexpr int32_t kBlockLength = 256;

struct Parts {
  int16_t values[kParts][kBlockRows * kBlockLength];
  int32_t sums[kBlockRows * 64];
};

void split(const int32_t* g, int32_t rows, int32_t length, int32_t count, Parts& parts) {
  constexpr int64_t half = int64_t{1} << (kPartBits - 1);
  for (int32_t m = 0; m < rows; ++m) {
    for (int32_t i = 0; i < count; ++i) {
      int64_t rest = g[static_cast<int64_t>(m) * length + i];
      for (int part = 0; part < kParts; ++part) {
        const int64_t value = ((rest + half) & (2 * half - 1)) - half;
        parts.values[part][m * count + i] = static_cast<int16_t>(value);
        rest = (rest - value) >> kPartBits;
      }
    }
  }
}

// Three products of the kernels for 16 bits in place of one of 32, which no instruction set has. By itself, so that small processors need
// no stack for it.
__attribute__((noinline)) void sign_gemm_by_parts(const int32_t* g, int32_t rows, int32_t length, const uint64_t* bits,
                                                  const uint8_t* present, int64_t* c) {
  Parts parts;
  for (int64_t i = 0; i < int64_t{rows} * 64; ++i) c[i] = 0;
  for (int32_t first = 0; first < length; first += kBlockLength) {
    const int32_t count = length - first < kBlockLength ? length - first : kBlockLength;
    for (int32_t m = 0; m < rows; m += kBlockRows) {
      const int32_t at_once = rows - m < kBlockRows ? rows - m : kBlockRows;
      int64_t* to = c + int64_t{m} * 64;
      split(g + static_cast<int64_t>(m) * length + first, at_once, length, count, parts);
      for (int part = 0; part < kParts; ++part) {
        sign_gemm(parts.values[part], at_once, count, bits + first, present == nullptr ? nullptr : present + first, parts.sums);
        for (int32_t i = 0; i < at_once * 64; ++i) to[i] += int64_t{parts.sums[i]} * (int64_t{1} << (part * kPartBits));
      }
    }
  }
}

}  // namespace

void sign_gemm(const int32_t* g, int32_t rows, int32_t length, const uint64_t* bits, const uint8_t* present, int64_t* c) {
  const bool small = active_isa() == Isa::kScalar || active_isa() == Isa::kDsp;
  if (small) return sign_gemm_scalar(g, rows, length, bits, present, c);
  sign_gemm_by_parts(g, rows, length, bits, present, c);
}

}  // namespace everbit
