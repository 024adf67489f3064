// The popcount of a vector is the sum of two table look-ups; what empties the byte counters, one step in 31, is left out.
#if defined(__x86_64__)
#include "xnor_limit.h"

// ymm10: the table, ymm11: the mask of the lower half bytes, ymm12 and ymm13: the factors.
#define PRODUCT(sum)                           \
  "vpxor %%ymm12, %%ymm13, %%ymm14\n\t"        \
  "vpand %%ymm11, %%ymm14, %%ymm15\n\t"        \
  "vpsrlw $4, %%ymm14, %%ymm14\n\t"            \
  "vpand %%ymm11, %%ymm14, %%ymm14\n\t"        \
  "vpshufb %%ymm15, %%ymm10, %%ymm15\n\t"      \
  "vpshufb %%ymm14, %%ymm10, %%ymm14\n\t"      \
  "vpaddb %%ymm14, %%ymm15, %%ymm15\n\t"       \
  "vpaddb %%ymm15, %%ymm" #sum ", %%ymm" #sum "\n\t"

namespace everbit_bench {

__attribute__((target("avx2"))) void xnor_limit_avx2(int64_t words) {
  constexpr int64_t kWords = 8 * 4;  // sums times words in a vector
  for (int64_t done = 0; done < words; done += kWords) {
    asm volatile(PRODUCT(0) PRODUCT(1) PRODUCT(2) PRODUCT(3) PRODUCT(4) PRODUCT(5) PRODUCT(6) PRODUCT(7)
                 :
                 :
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm14", "xmm15");
  }
}

}  // namespace everbit_bench
#endif
