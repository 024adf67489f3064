#include "parallel.h"

#ifdef _OPENMP
#include <pthread.h>
#endif

namespace everbit {
namespace {

bool in_child = false;

#ifdef _OPENMP
const int registered = pthread_atfork(nullptr, nullptr, [] { in_child = true; });
#endif

}  // namespace

bool forked() { return in_child; }

}  // namespace everbit
