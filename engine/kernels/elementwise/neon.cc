#define EVERBIT_ISA_NAME elementwise_neon
#include "loops.h"
