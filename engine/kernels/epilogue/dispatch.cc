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
  add = layers.add;
  sign = layers.threshold != nullptr;
  A0 = layers.A0;
  A1 = layers.A1;
  add_B = layers.add_B;
  add_s = layers.add_s;
  add_zero = layers.add_zero;
  for (int32_t c = 0; c < number; ++c) {
    if (affine) {
      A[c] = layers.A[first + c];
      B[c] = layers.B[first + c];
      s[c] = layers.s[first + c];
    }
    if (sign) threshold[c] = layers.threshold[first + c];
  }
}

void epilogue(const EpilogueColumns& columns, const EpilogueRows& rows) {
  constexpr KernelTable<Epilogue> kTable = {epilogue_scalar, EVERBIT_X86(epilogue_avx2), EVERBIT_X86(epilogue_avx512), nullptr,
                                            EVERBIT_NEON(epilogue_neon)};
  kTable.active()(columns, rows);
}

}  // namespace everbit
