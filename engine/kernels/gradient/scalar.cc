#define EVERBIT_ISA_NAME gradient_scalar
#include "loops.h"
