#include "isa.h"

#include <initializer_list>

namespace everbit {
namespace {

constexpr const char* kNames[] = {"scalar", "avx2", "avx512"};

Isa active = best_isa();

}  // namespace

const char* isa_name(Isa isa) { return kNames[static_cast<int>(isa)]; }

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return true;
#if defined(__x86_64__)
    case Isa::kAvx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    case Isa::kAvx512:
      return isa_available(Isa::kAvx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vnni");
#endif
    default: return false;
  }
}

Isa best_isa() {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (isa_available(isa)) return isa;
  }
  return Isa::kScalar;
}

Isa active_isa() { return active; }

bool select_isa(Isa isa) {
  if (!isa_available(isa)) return false;
  active = isa;
  return true;
}

}  // namespace everbit
