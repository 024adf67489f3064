#include "../isa.h"

#if defined(EVERBIT_HAS_DSP)
#include "../../number_types.h"
#include "../pairs_dsp.h"
#include "dot.h"

namespace everbit {
namespace {

// The zero point leaves through the sum of the weights, which are 2^16 numbers of 16 bits at most: they fit int32.
template <typename W, typename X>
int64_t product(const DotCall& call) {
  const W* w = static_cast<const W*>(call.w);
  const X* x = static_cast<const X*>(call.x);
  constexpr uint32_t kOnes = 0x00010001;
  int64_t total = 0;
  int32_t weights = 0, k = 0;
  for (; k + 4 <= call.count; k += 4) {
    const Pairs a = load_pairs(w + k), b = load_pairs(x + k);
    total = __smlald(a.low, b.low, total);
    total = __smlald(a.high, b.high, total);
    weights = __smlad(a.low, kOnes, weights);
    weights = __smlad(a.high, kOnes, weights);
  }
  for (; k < call.count; ++k) {
    total += w[k] * x[k];
    weights += w[k];
  }
  return total - int64_t{weights} * call.zero_point;
}

}  // namespace

int64_t dot_dsp(const DotCall& call) {
  int64_t result = 0;
  with_short_type(call.w_bits, [&](auto w) {
    with_short_type(call.x_bits, [&](auto x) { result = product<decltype(w), decltype(x)>(call); });
  });
  return result;
}

}  // namespace everbit
#endif
