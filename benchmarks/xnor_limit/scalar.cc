#include "bits.h"
#include "xnor_limit.h"

namespace everbit_bench {

void xnor_limit_scalar(int64_t words) {
  uint64_t row = 1, column = 2;
  int64_t sum[2] = {};
  for (int64_t done = 0; done < words; done += 2) {
    // The factors are new to the compiler at every step, though no instruction comes of it.
    asm volatile("" : "+r"(row), "+r"(column));
    sum[0] += everbit::popcount(row ^ column);
    asm volatile("" : "+r"(row), "+r"(column));
    sum[1] += everbit::popcount(row ^ column);
  }
  asm volatile("" : : "r"(sum[0]), "r"(sum[1]));
}

}  // namespace everbit_bench
