#define EVERBIT_ISA_NAME depthwise_neon
#include "loops.h"
