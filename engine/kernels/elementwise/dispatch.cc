#include "../isa.h"
#include "elementwise.h"

namespace everbit {

#define EVERBIT_DECLARE(isa)              \
  namespace elementwise_##isa {           \
  void affine(const AffineCall&);         \
  void add(const AddCall&);               \
  void sign(const SignCall&);             \
  void requantize(const RequantizeCall&); \
  void norm(const NormCall&);             \
  }
EVERBIT_DECLARE(scalar)
EVERBIT_DECLARE(avx2)
EVERBIT_DECLARE(avx512)
EVERBIT_DECLARE(neon)
#define EVERBIT_TABLE(name)                                             \
  {elementwise_scalar::name, EVERBIT_X86(elementwise_avx2::name), \
   EVERBIT_X86(elementwise_avx512::name), nullptr, EVERBIT_NEON(elementwise_neon::name)}

void affine_loop(const AffineCall& call) {
  constexpr KernelTable<void(const AffineCall&)> kTable = EVERBIT_TABLE(affine);
  kTable.active()(call);
}

void add_loop(const AddCall& call) {
  constexpr KernelTable<void(const AddCall&)> kTable = EVERBIT_TABLE(add);
  kTable.active()(call);
}

void sign_loop(const SignCall& call) {
  constexpr KernelTable<void(const SignCall&)> kTable = EVERBIT_TABLE(sign);
  kTable.active()(call);
}

void requantize_loop(const RequantizeCall& call) {
  constexpr KernelTable<void(const RequantizeCall&)> kTable = EVERBIT_TABLE(requantize);
  kTable.active()(call);
}

void norm_loop(const NormCall& call) {
  constexpr KernelTable<void(const NormCall&)> kTable = EVERBIT_TABLE(norm);
  kTable.active()(call);
}

}  // namespace everbit
