#define EVERBIT_ISA_NAME gradient_avx2
#include "loops.h"
