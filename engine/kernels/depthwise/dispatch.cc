#include "../isa.h"
#include "depthwise.h"

namespace everbit {

#define EVERBIT_DECLARE(isa)                              \
  namespace depthwise_##isa {                             \
  void row(const DepthwiseRow&);                          \
  void input_gradient(const DepthwiseInputGradient&);     \
  void weight_gradient(const DepthwiseWeightGradient&);   \
  }
EVERBIT_DECLARE(scalar)
EVERBIT_DECLARE(avx2)
EVERBIT_DECLARE(avx512)
EVERBIT_DECLARE(neon)
#define EVERBIT_TABLE(name)                                         \
  {depthwise_scalar::name, EVERBIT_X86(depthwise_avx2::name),       \
   EVERBIT_X86(depthwise_avx512::name), nullptr, EVERBIT_NEON(depthwise_neon::name)}

void depthwise_row(const DepthwiseRow& call) {
  constexpr KernelTable<void(const DepthwiseRow&)> kTable = EVERBIT_TABLE(row);
  kTable.active()(call);
}

void depthwise_input_gradient(const DepthwiseInputGradient& call) {
  constexpr KernelTable<void(const DepthwiseInputGradient&)> kTable = EVERBIT_TABLE(input_gradient);
  kTable.active()(call);
}

void depthwise_weight_gradient(const DepthwiseWeightGradient& call) {
  constexpr KernelTable<void(const DepthwiseWeightGradient&)> kTable = EVERBIT_TABLE(weight_gradient);
  kTable.active()(call);
}

}  // namespace everbit
