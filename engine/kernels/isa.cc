#include "isa.h"

#if defined(EVERBIT_HAS_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(EVERBIT_HAS_NEON)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace everbit {
namespace {

constexpr const char* kNames[kIsaCount] = {"scalar", "avx2", "avx512", "amx", "neon", "neon_dotprod", "dsp"};

Isa active = best_isa();

#if defined(EVERBIT_HAS_AMX)
// Linux keeps the tile registers of a process only after it asked for them (arch_prctl, ARCH_REQ_XCOMP_PERM of XFEATURE_XTILEDATA).
bool tiles_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}
#endif

}  // namespace

const char* isa_name(Isa isa) { return kNames[static_cast<int>(isa)]; }

bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return true;
#if defined(EVERBIT_HAS_X86)
    case Isa::kAvx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    case Isa::kAvx512:
      return isa_available(Isa::kAvx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vpopcntdq") &&
             __builtin_cpu_supports("avx512vnni");
#endif
#if defined(EVERBIT_HAS_AMX)
    case Isa::kAmx:
      return isa_available(Isa::kAvx512) && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") && tiles_granted();
#endif
#if defined(EVERBIT_HAS_NEON_DOTPROD)
    case Isa::kNeon: return true;  // part of every 64-bit ARM
    case Isa::kNeonDotprod: return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(EVERBIT_HAS_NEON)
    case Isa::kNeon: return (getauxval(AT_HWCAP) & HWCAP_NEON) != 0;
#endif
#if defined(EVERBIT_HAS_DSP)
    case Isa::kDsp: return true;
#endif
    default: return false;
  }
}

Isa best_isa() {
  int isa = kIsaCount - 1;
  while (!isa_available(static_cast<Isa>(isa))) --isa;
  return static_cast<Isa>(isa);
}

Isa active_isa() { return active; }

bool select_isa(Isa isa) {
  if (!isa_available(isa)) return false;
  active = isa;
  return true;
}

}  // namespace everbit
