#define EVERBIT_ISA_NAME depthwise_avx2
#include "loops.h"
