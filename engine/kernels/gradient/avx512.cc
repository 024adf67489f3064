#define EVERBIT_ISA_NAME gradient_avx512
#include "loops.h"
