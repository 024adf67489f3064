// Threads. A loop whose parts are independent is shared out among the threads of the learner that runs it; no result depends on how many
// there are. Without OpenMP everything runs on the caller's thread.
#pragma once

#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace everbit {

// Elements that a loop over numbers must have before a thread is worth waking for them.
constexpr int64_t kElementGrain = 1 << 14;

// What parts of a loop find out together; small processors have no atomic instructions, and no threads either.
inline void join_or(uint32_t& all, uint32_t part) {
#ifdef _OPENMP
  __atomic_fetch_or(&all, part, __ATOMIC_RELAXED);
#else
  all |= part;
#endif
}

inline void join_sum(int32_t& all, int32_t part) {
#ifdef _OPENMP
  __atomic_fetch_add(&all, part, __ATOMIC_RELAXED);
#else
  all += part;
#endif
}

// Whether this process is the child of one that had the engine: its threads did not come along, and OpenMP would wait for them forever.
bool forked();

// Calls f(first, last, thread) for ranges that cover [0, count), thread in [0, threads). No range is shorter than `grain` (unless count
// is), so that a small loop does not pay for waking threads. Ranges are handed out as threads become free: one that is interrupted by
// other work of the machine gets fewer of them.
template <typename F>
void parallel_for(int threads, int64_t count, int64_t grain, F&& f) {
  constexpr int64_t kPartsPerThread = 4;
  const int64_t most = count / (grain < 1 ? 1 : grain);
  [[maybe_unused]] const int64_t parts = most < kPartsPerThread * threads ? most : kPartsPerThread * threads;
#ifdef _OPENMP
  if (threads > 1 && parts > 1 && !forked()) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t part = 0; part < parts; ++part) f(count * part / parts, count * (part + 1) / parts, omp_get_thread_num());
    return;
  }
#endif
  if (count > 0) f(int64_t{0}, count, 0);
}

}  // namespace everbit
