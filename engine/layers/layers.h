// The functions of every layer, listed once for the table in layer.cc. Each is defined, with its rule, in the file of its name.
#pragma once

#include "layer.h"

namespace everbit {

#define EVERBIT_LAYER(name)                                      \
  const char* name##_check(const Program&, const LayerRecord&);  \
  void name##_forward(const Context&)
#define EVERBIT_LEARNING_LAYER(name) \
  EVERBIT_LAYER(name);               \
  void name##_backward(const Context&)

EVERBIT_LAYER(input);
EVERBIT_LAYER(affine);
EVERBIT_LEARNING_LAYER(convolution);
EVERBIT_LEARNING_LAYER(binary_convolution);
EVERBIT_LEARNING_LAYER(batch_norm);
EVERBIT_LEARNING_LAYER(sign);
EVERBIT_LEARNING_LAYER(add);
EVERBIT_LEARNING_LAYER(rprelu);
EVERBIT_LEARNING_LAYER(average_pool);
EVERBIT_LEARNING_LAYER(max_pool);
EVERBIT_LEARNING_LAYER(global_average_pool);
EVERBIT_LEARNING_LAYER(depthwise_convolution);
EVERBIT_LEARNING_LAYER(blur_pool);
EVERBIT_LEARNING_LAYER(global_max_pool);
EVERBIT_LEARNING_LAYER(clamp);
EVERBIT_LEARNING_LAYER(concat);
EVERBIT_LEARNING_LAYER(flatten);

#undef EVERBIT_LEARNING_LAYER
#undef EVERBIT_LAYER

size_t convolution_scratch(const Extent&);
size_t binary_convolution_scratch(const Extent&);
size_t batch_norm_saved(const Extent&);
size_t batch_norm_scratch(const Extent&);
size_t sign_scratch(const Extent&);
size_t add_scratch(const Extent&);
size_t rprelu_scratch(const Extent&);
size_t average_pool_scratch(const Extent&);
size_t max_pool_saved(const Extent&);
size_t max_pool_scratch(const Extent&);
size_t global_average_pool_scratch(const Extent&);
size_t depthwise_convolution_scratch(const Extent&);
size_t blur_pool_scratch(const Extent&);
size_t clamp_scratch(const Extent&);
size_t concat_scratch(const Extent&);
size_t flatten_scratch(const Extent&);

// The latent has two halves: what is stored, and what the learnable part sees (latent.cc).
const char* latent_check(const Program&, const LayerRecord&);
// Bytes of one stored latent.
size_t latent_bytes(const Program&);
// Encodes the input tensor of one image to latent_bytes() bytes.
void latent_encode(const Program&, const void* values, uint8_t* codes);
// Copies a stored latent that came from elsewhere; bits behind the last code become 0.
void latent_copy(const Program&, const uint8_t* from, uint8_t* codes);
// Decodes one stored latent to the output tensor of one image.
void latent_decode(const Program&, const uint8_t* codes, void* values);

}  // namespace everbit
