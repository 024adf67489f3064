#define EVERBIT_ISA_NAME elementwise_avx2
#include "loops.h"
