#define EVERBIT_ISA_NAME elementwise_avx512
#include "loops.h"
