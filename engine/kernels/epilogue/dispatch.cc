#include "../isa.h"
#include "epilogue.h"

namespace everbit {

void EpilogueColumns::take(const EpilogueLayers& layers, int32_t first, int32_t number) {
  *this = EpilogueColumns{};
  count = number;
  low = layers.low;
  high = layers.high;
  affine_zero = layers.affine_zero;
  bits = layers.bits;
  affine = layers.A != nullptr;
  adds = layers.add;
  sign = layers.threshold != nullptr;
  A0 = layers.A0;
  A1 = layers.A1;
  add_B = layers.add_B;
  add_s = layers.add_s;
  add_zero = layers.add_zero;
  const int32_t lowest = affine ? -(1 << (bits - 1)) : INT16_MIN;
  for (int32_t c = 0; c < number; ++c) {
    if (affine) {
      const EpilogueRounding rounding(layers.B[first + c], layers.s[first + c]);
      A[c][0] = layers.A[first + c];
      add[c] = rounding.add;
      negative[c] = rounding.negative;
      shift[c] = rounding.shift;
    }
    if (sign) {
      const int32_t wanted = layers.threshold[first + c];
      threshold[c] = wanted < lowest ? lowest : wanted > -lowest ? -lowest : wanted;
    }
  }
}

void epilogue(const EpilogueColumns& columns, const EpilogueRows& rows) {
  constexpr KernelTable<Epilogue> kTable = {epilogue_scalar, EVERBIT_X86(epilogue_avx2), EVERBIT_X86(epilogue_avx512), nullptr,
                                            EVERBIT_NEON(epilogue_neon)};
  kTable.active()(columns, rows);
}

}  // namespace everbit
