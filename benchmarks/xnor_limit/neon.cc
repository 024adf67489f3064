// eor, cnt and add run on every vector pipe of the larger cores; the folding of byte counters, one step in 31, is left out.
#if defined(__aarch64__)
#include "xnor_limit.h"

#define PRODUCT(sum)                           \
  "eor v24.16b, v25.16b, v26.16b\n\t"          \
  "cnt v24.16b, v24.16b\n\t"                   \
  "add v" #sum ".16b, v" #sum ".16b, v24.16b\n\t"

namespace everbit_bench {

void xnor_limit_neon(int64_t words) {
  constexpr int64_t kWords = 16 * 2;  // sums times words in a vector
  for (int64_t done = 0; done < words; done += kWords) {
    asm volatile(PRODUCT(0) PRODUCT(1) PRODUCT(2) PRODUCT(3) PRODUCT(4) PRODUCT(5) PRODUCT(6) PRODUCT(7)
                     PRODUCT(16) PRODUCT(17) PRODUCT(18) PRODUCT(19) PRODUCT(20) PRODUCT(21) PRODUCT(22) PRODUCT(23)
                 :
                 :
                 : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24");
  }
}

}  // namespace everbit_bench
#endif
