// What the files of the binary convolution share, and what the learner needs to set up its weights before it runs.
#pragma once

#include "window.h"

namespace everbit {

enum BinaryConvolutionAttribute { kBinaryPadValue = 4, kBinarySkew = 5 };  // behind the window's four
constexpr int kBinaryWeight = 0;  // parameter

inline Window binary_window(const LayerRecord& layer) {
  const int32_t* a = layer.attributes;
  return {a[0], a[1], a[2], a[3], left_padding(a[3], a[kBinarySkew])};
}

// Where the word of a channel at a step (tap * words + word of the tap) of its weights stands.
inline const uint64_t* binary_weight_word(const uint64_t* bits, int32_t channel, int32_t step, int32_t steps) {
  return bits + (static_cast<size_t>(channel / 8) * static_cast<size_t>(steps) + static_cast<size_t>(step)) * 8 +
         static_cast<size_t>(channel % 8);
}

// nullptr, or what is wrong with its tensors and attributes.
const char* binary_shape_check(const Program&, const LayerRecord&);
// The gradient of the input from gradients of 16 bits, batch x input elements, in the scratch.
const int32_t* binary_input_gradient(const Context&, const int16_t* g);

// Memory of the backward pass (binary_convolution_gradient.cc).
size_t binary_convolution_gradient_scratch(const Extent&);

// Words of the weight bits, [ceil(C_out / 8)][taps * words][8].
size_t binary_weight_words(const Program&, const LayerRecord&);
// Weights, C_out x taps x C_in: the order of the latent weights.
int32_t binary_weight_count(const Program&, const LayerRecord&);
// Values of BinaryWeights::tap_sums, taps x C_out.
int32_t binary_tap_sums(const Program&, const LayerRecord&);
// Recomputes the tap sums from the bits.
void refresh_tap_sums(const Program&, const LayerRecord&, const BinaryWeights&, int threads);
// Latent weights of `width` bits of one size, with the signs of the bits.
void initialise_latent_weights(const Program&, const LayerRecord&, const uint64_t* bits, int32_t magnitude, int width, void* latent);

}  // namespace everbit
