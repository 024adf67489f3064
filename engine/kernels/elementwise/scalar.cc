#define EVERBIT_ISA_NAME elementwise_scalar
#include "loops.h"
