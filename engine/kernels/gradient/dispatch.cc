#include "../isa.h"
#include "gradient.h"

namespace everbit {

#define EVERBIT_DECLARE(isa)                       \
  namespace gradient_##isa {                       \
  uint32_t magnitude(const int32_t*, size_t);      \
  void narrow(const NarrowCall&);                  \
  uint64_t update(const UpdateCall&);              \
  }
EVERBIT_DECLARE(scalar)
EVERBIT_DECLARE(avx2)
EVERBIT_DECLARE(avx512)
EVERBIT_DECLARE(neon)
#define EVERBIT_TABLE(name)                                             \
  {gradient_scalar::name, EVERBIT_X86(gradient_avx2::name), \
   EVERBIT_X86(gradient_avx512::name), nullptr, EVERBIT_NEON(gradient_neon::name)}

uint32_t magnitude_loop(const int32_t* sums, size_t count) {
  constexpr KernelTable<uint32_t(const int32_t*, size_t)> kTable = EVERBIT_TABLE(magnitude);
  return kTable.active()(sums, count);
}

void narrow_loop(const NarrowCall& call) {
  constexpr KernelTable<void(const NarrowCall&)> kTable = EVERBIT_TABLE(narrow);
  kTable.active()(call);
}

uint64_t update_loop(const UpdateCall& call) {
  constexpr KernelTable<uint64_t(const UpdateCall&)> kTable = EVERBIT_TABLE(update);
  return kTable.active()(call);
}

}  // namespace everbit
