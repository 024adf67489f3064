#include "processor.h"

#include "kernels/packed_gemm/packed_gemm.h"
#include "kernels/sign_convolution/sign_convolution.h"

namespace everbit {

Processor this_processor() { return {sizeof(void*), kPackedGemmExists, kTilesExist}; }

}  // namespace everbit
