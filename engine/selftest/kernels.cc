// The table of kernel families.
#include "draw.h"

namespace everbit::selftest {
namespace {

// In the order of FAMILIES in tools/golden/kernel_vectors.py.
void (*const kFamilies[])(Draw&) = {
    xnor_vector,       sign_vector,   int_vector,       depthwise_vector, affine_vector, add_vector,       sign_bits_vector,
    requantize_vector, norm_vector,   magnitude_vector, narrow_vector,    merge_vector,  estimator_vector, channel_sum_vector,
    norm_gradient_vector, update_vector, sign_convolution_vector, sign_gradient_vector, packed_vector, short_requantize_vector,
    epilogue_vector,   dot_vector,    prelu_vector,     maximum_vector,   shift_vector,  image_vector,     weights_vector,
    weight_sums_vector, prelu_gradient_vector, mask_vector,
};

}  // namespace

Outcome run_kernel(const KernelVector& vector, Room& room) {
  Digest digest;
  Draw draw{vector.parameters, {{vector.seed}, vector.fills[0]}, vector.fills[1], room, digest};
  kFamilies[vector.family](draw);
  return {room.enough, digest.value()};
}

}  // namespace everbit::selftest
