#define EVERBIT_ISA_NAME gradient_neon
#include "loops.h"
