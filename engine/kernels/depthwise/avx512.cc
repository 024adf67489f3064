#define EVERBIT_ISA_NAME depthwise_avx512
#include "loops.h"
