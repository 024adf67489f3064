#include "../isa.h"
#include "requantize.h"

namespace everbit {

void short_requantize(const ShortRequantizeCall& call) {
  constexpr KernelTable<ShortRequantize> kTable = {short_requantize_scalar, EVERBIT_X86(short_requantize_avx2),
                                                   EVERBIT_X86(short_requantize_avx512), nullptr, EVERBIT_NEON(short_requantize_neon)};
  kTable.active()(call);
}

}  // namespace everbit
