// What a digest of a network takes in: in the order in which tools/selftest/network_vectors.py takes it from the reference.
#pragma once

#include "../bits.h"
#include "../learner/head.h"
#include "../learner/network.h"
#include "../digest.h"
#include "vectors.h"

namespace everbit::selftest {

inline const uint8_t* bytes_of(const Image& image) { return reinterpret_cast<const uint8_t*>(image.words); }

inline int32_t latent_input(const Program& program) { return program.layer(program.latent_layer()).inputs[0]; }
inline int32_t latent_output(const Program& program) { return program.layer(program.latent_layer()).output; }
inline int32_t features(const Program& program) { return program.layer(program.layer_count() - 1).output; }

// The values of an activation; +-1 for single bits.
void add_activation(Digest& digest, const TensorRecord& tensor, const void* values, int32_t batch);
// The parameters behind the latent, and the weight bits of their binary convolutions.
void add_parameters(Digest& digest, const Network& network);
// Rows of the head, consolidated or temporary.
void add_head(Digest& digest, const Program& program, int width, int32_t classes, const void* rows);

}  // namespace everbit::selftest
