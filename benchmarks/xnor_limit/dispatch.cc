#include "kernels/isa.h"
#include "xnor_limit.h"

namespace everbit_bench {
namespace {

using everbit::Isa;

struct Entry {
  Isa isa;  // a kernel of xnor_gemm, or what uses one
  XnorLimit* limit;
};

constexpr Entry kLimits[] = {
    {Isa::kScalar, xnor_limit_scalar},
#if defined(__x86_64__)
    {Isa::kAvx2, xnor_limit_avx2},
    {Isa::kAvx512, xnor_limit_avx512},
    {Isa::kAmx, xnor_limit_avx512},
#elif defined(__aarch64__)
    {Isa::kNeon, xnor_limit_neon},
    {Isa::kNeonDotprod, xnor_limit_neon},
#endif
};

}  // namespace

XnorLimit* active_xnor_limit() {
  for (const Entry& entry : kLimits) {
    if (entry.isa == everbit::active_isa()) return entry.limit;
  }
  return nullptr;
}

}  // namespace everbit_bench
