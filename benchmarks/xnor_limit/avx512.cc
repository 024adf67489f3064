// vpxorq and vpaddq run on ports 0 and 5, vpopcntq on port 5 alone: three instructions on two ports, 1.5 cycles a vector.
#if defined(__x86_64__)
#include "xnor_limit.h"

#define PRODUCT(sum)                           \
  "vpxorq %%zmm24, %%zmm25, %%zmm26\n\t"       \
  "vpopcntq %%zmm26, %%zmm26\n\t"              \
  "vpaddq %%zmm26, %%zmm" #sum ", %%zmm" #sum "\n\t"

namespace everbit_bench {

__attribute__((target("avx512f"))) void xnor_limit_avx512(int64_t words) {
  constexpr int64_t kWords = 16 * 8;  // sums times words in a vector
  for (int64_t done = 0; done < words; done += kWords) {
    asm volatile(PRODUCT(0) PRODUCT(1) PRODUCT(2) PRODUCT(3) PRODUCT(4) PRODUCT(5) PRODUCT(6) PRODUCT(7)
                     PRODUCT(8) PRODUCT(9) PRODUCT(10) PRODUCT(11) PRODUCT(12) PRODUCT(13) PRODUCT(14) PRODUCT(15)
                 :
                 :
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                   "xmm13", "xmm14", "xmm15", "xmm26");
  }
}

}  // namespace everbit_bench
#endif
