#include "binary_chain.h"

#include <cstring>

#include "../kernels/epilogue/epilogue.h"
#include "affine.h"
#include "binary_sums.h"

namespace everbit {
namespace {

bool reads(const Program& program, int32_t layer, int32_t tensor) {
  const LayerRecord& record = program.layer(layer);
  for (int k = 0; k < layer_kind(record.operation).inputs; ++k) {
    if (record.inputs[k] == tensor) return true;
  }
  return false;
}

// Whether no layer behind `reader` reads a tensor, nor the head.
bool last_reader(const Program& program, int32_t reader, int32_t tensor) {
  for (int32_t i = reader + 1; i < program.layer_count(); ++i) {
    if (reads(program, i, tensor)) return false;
  }
  return program.layer(program.layer_count() - 1).output != tensor;
}

// Which member a layer may become, or nullptr.
int32_t* member(BinaryChain& chain, const Program& program, int32_t index) {
  const LayerRecord& layer = program.layer(index);
  const TensorRecord& out = program.tensor(layer.output);
  const bool short_values = out.bits == 8 || out.bits == 16;
  switch (layer.operation) {
    case Operation::kClamp: return chain.last == chain.convolution ? &chain.clamp : nullptr;
    case Operation::kAffine: return chain.affine == kAbsent && short_values ? &chain.affine : nullptr;
    case Operation::kAdd: {
      if (chain.affine == kAbsent || chain.add != kAbsent || !short_values || layer.inputs[0] == layer.inputs[1]) return nullptr;
      const int32_t affine = program.layer(chain.affine).output;
      const TensorRecord& shortcut = program.tensor(layer.inputs[layer.inputs[0] == affine ? 1 : 0]);
      return shortcut.bits == out.bits && program.tensor(affine).bits == out.bits ? &chain.add : nullptr;
    }
    case Operation::kSign: return layer.arrays[0].bytes != 0 ? &chain.sign : nullptr;  // a learned bias has no threshold
    default: return nullptr;
  }
}

}  // namespace

int32_t BinaryChain::value_layer(const Program& program) const {
  if (sign == kAbsent) return last;
  if (affine == kAbsent) return kAbsent;
  const int32_t before = add != kAbsent ? add : affine;
  return last_reader(program, sign, program.layer(before).output) ? kAbsent : before;
}

bool BinaryChain::stores(const Program& program, int32_t layer) const {
  return !exists() || layer == sign || layer == value_layer(program);
}

BinaryChain binary_chain(const Program& program, int32_t first) {
  BinaryChain chain;
  chain.convolution = chain.last = first;
  if (program.layer(first).operation != Operation::kBinaryConvolution) return chain;
  // A clamp alone is no chain: sums leave it only through an affine or a sign.
  BinaryChain complete = chain;
  for (int32_t i = first + 1; i < program.latent_layer(); ++i) {
    const int32_t before = program.layer(i - 1).output;
    int32_t* place = reads(program, i, before) ? member(chain, program, i) : nullptr;
    if (place == nullptr) break;
    const bool only_reader = last_reader(program, i, before);
    if (!only_reader && (program.layer(i).operation != Operation::kSign || chain.affine == kAbsent)) break;
    *place = chain.last = i;
    if (chain.affine != kAbsent || chain.sign != kAbsent) complete = chain;
    if (chain.sign != kAbsent) break;
  }
  return complete;
}

namespace {

// Where the values of a chain stand.
struct ChainTensors {
  int32_t channels;
  const void* shortcut;
  void* y;
  uint8_t* signs;
  int64_t sign_stride;
};

// What one thread does with blocks of sums.
class ChainUser {
 public:
  ChainUser(const EpilogueLayers& layers, const ChainTensors& tensors) : layers_(layers), tensors_(tensors) {}

  void operator()(const BinarySums& block) {
    for (int32_t c = 0; c < block.channels; c += kEpilogueColumns) {
      const int32_t channel = block.channel + c;
      if (channel != channel_) {
        channel_ = channel;
        columns_.take(layers_, channel, block.channels - c < kEpilogueColumns ? block.channels - c : kEpilogueColumns);
      }
      const int64_t at = int64_t{block.place} * tensors_.channels + channel;
      epilogue(columns_, {element_at(block.sums, c, block.bits), block.bits, block.stride, block.places,
                          element_at(tensors_.shortcut, at, layers_.bits), element_at(tensors_.y, at, layers_.bits), tensors_.channels,
                          tensors_.signs + block.place * tensors_.sign_stride + channel / 8, tensors_.sign_stride});
    }
  }

 private:
  const EpilogueLayers& layers_;
  const ChainTensors& tensors_;
  EpilogueColumns columns_;
  int32_t channel_ = -1;
};

}  // namespace

void binary_chain_forward(const Context& context, const BinaryChain& chain) {
  const Program& program = context.program;
  const auto values = [&](int32_t layer) { return context.activations[program.layer(layer).output]; };
  EpilogueLayers layers;
  ChainTensors tensors{context.output().channels, nullptr, nullptr, nullptr, 0};
  if (chain.clamp != kAbsent) {
    layers.low = program.layer(chain.clamp).attributes[0];
    layers.high = program.layer(chain.clamp).attributes[1];
  }
  if (chain.affine != kAbsent) {
    const LayerRecord& affine = program.layer(chain.affine);
    const AffineConstants constants = affine_constants(program, affine);
    layers.A = constants.A;
    layers.B = constants.B;
    layers.s = constants.s;
    layers.affine_zero = program.tensor(affine.output).zero_point;
    layers.bits = program.tensor(affine.output).bits;
  }
  if (chain.add != kAbsent) {
    const LayerRecord& add = program.layer(chain.add);
    const int32_t* a = add.attributes;
    const bool first = add.inputs[0] == program.layer(chain.affine).output;
    layers.add = true;
    layers.A0 = a[first ? 0 : 1];
    layers.A1 = a[first ? 1 : 0];
    layers.add_B = a[2];
    layers.add_s = a[3];
    layers.add_zero = program.tensor(add.output).zero_point;
    tensors.shortcut = context.activations[add.inputs[first ? 1 : 0]];
  }
  const int32_t value = chain.value_layer(program);
  if (value != kAbsent) tensors.y = values(value);
  if (chain.sign != kAbsent) {
    layers.threshold = program.array<int32_t>(program.layer(chain.sign), 0);
    tensors.signs = static_cast<uint8_t*>(values(chain.sign));
    tensors.sign_stride = words_for(tensors.channels) * int64_t{sizeof(uint64_t)};
    const size_t bytes = static_cast<size_t>(context.batch * context.output().pixels()) * static_cast<size_t>(tensors.sign_stride);
    if (tensors.channels % 64 != 0) std::memset(tensors.signs, 0, bytes);  // blocks write the bytes of their channels alone
  }
  for_each_binary_sums(context, nullptr, [&] { return ChainUser(layers, tensors); });
}

}  // namespace everbit
