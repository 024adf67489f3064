#include "learned.h"

#include "../layers/binary_convolution.h"

namespace everbit::selftest {

void add_activation(Digest& digest, const TensorRecord& tensor, const void* values, int32_t batch) {
  const int32_t pixels = batch * tensor.pixels();
  if (tensor.bits > 1) {
    const int32_t count = pixels * tensor.channels;
    for (int32_t i = 0; i < count; ++i) digest.add(load_value(values, i, tensor.bits));
    return;
  }
  const uint64_t* words = static_cast<const uint64_t*>(values);
  const int32_t stride = words_for(tensor.channels);
  for (int32_t p = 0; p < pixels; ++p) {
    for (int32_t c = 0; c < tensor.channels; ++c) digest.add((words[p * stride + c / 64] >> (c % 64)) % 2 != 0 ? 1 : -1);
  }
}

void add_parameters(Digest& digest, const Network& network) {
  const Program& program = network.program();
  for (int32_t i = program.latent_layer() + 1; i < program.layer_count(); ++i) {
    const LayerRecord& layer = program.layer(i);
    for (const int32_t index : layer.parameters) {
      if (index == kAbsent) continue;
      const Parameter& p = network.parameter(index);
      for (int32_t k = 0; p.values != nullptr && k < p.count; ++k) digest.add(p.get(k));
    }
    if (layer.operation == Operation::kBinaryConvolution) {
      digest.add(network.binary_weights(i).bits, binary_weight_words(program, layer));
    }
  }
}

void add_head(Digest& digest, const Program& program, int width, int32_t classes, const void* rows) {
  const int32_t count = classes * program.feature_tensor().elements();
  for (int32_t i = 0; i < count; ++i) digest.add(load_value(rows, i, width));
}

}  // namespace everbit::selftest
