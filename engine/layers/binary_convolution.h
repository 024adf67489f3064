// What the learner needs to set up the weights of a binary convolution before it runs.
#pragma once

#include "layer.h"

namespace everbit {

// Words of the weight bits, [ceil(C_out / 8)][taps * words][8].
size_t binary_weight_words(const Program&, const LayerRecord&);
// Weights, C_out x taps x C_in: the order of the latent weights.
int32_t binary_weight_count(const Program&, const LayerRecord&);
// Values of BinaryWeights::tap_sums, taps x C_out.
int32_t binary_tap_sums(const Program&, const LayerRecord&);
// Recomputes the tap sums from the bits.
void refresh_tap_sums(const Program&, const LayerRecord&, const BinaryWeights&);
// Latent weights of `width` bits of one size, with the signs of the bits.
void initialise_latent_weights(const Program&, const LayerRecord&, const uint64_t* bits, int32_t magnitude, int width, void* latent);

}  // namespace everbit
