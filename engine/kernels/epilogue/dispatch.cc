#include "../isa.h"
#include "epilogue.h"

namespace everbit {

void epilogue(const EpilogueCall& call) {
  constexpr KernelTable<Epilogue> kTable = {epilogue_scalar, EVERBIT_X86(epilogue_avx2), EVERBIT_X86(epilogue_avx512), nullptr,
                                            EVERBIT_NEON(epilogue_neon)};
  kTable.active()(call);
}

}  // namespace everbit
