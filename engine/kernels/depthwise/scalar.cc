#define EVERBIT_ISA_NAME depthwise_scalar
#include "loops.h"
