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

// What one thread does with blocks of sums: pieces of the call for the whole tensor.
class ChainUser {
 public:
  ChainUser(const EpilogueCall& all, int32_t channels) : all_(all), call_(all), channels_(channels) {}

  void operator()(const BinarySums& block) {
    call_.sum_bits = block.bits;
    call_.sum_stride = block.stride;
    call_.places = block.places;
    for (int32_t c = 0; c < block.channels; c += kEpilogueColumns) {
      if (block.channel + c != channel_) choose(block.channel + c, block.channels - c);
      const int64_t at = int64_t{block.place} * channels_ + channel_;
      call_.sums = element_at(block.sums, c, block.bits);
      call_.shortcut = element_at(all_.shortcut, at, all_.bits);
      call_.y = element_at(all_.y, at, all_.bits);
      call_.signs = all_.signs + block.place * all_.sign_stride + channel_ / 8;
      epilogue(call_);
    }
  }

 private:
  // The constants of the columns from `channel` on, of which `left` are to be done.
  void choose(int32_t channel, int32_t left) {
    channel_ = channel;
    call_.columns = left < kEpilogueColumns ? left : kEpilogueColumns;
    if (all_.A != nullptr) {
      call_.A = all_.A + channel;
      call_.B = all_.B + channel;
      call_.s = all_.s + channel;
    }
    if (all_.threshold != nullptr) call_.threshold = all_.threshold + channel;
  }

  const EpilogueCall& all_;
  EpilogueCall call_;
  int32_t channels_;
  int32_t channel_ = -1;
};

}  // namespace

void binary_chain_forward(const Context& context, const BinaryChain& chain) {
  const Program& program = context.program;
  const int32_t channels = context.output().channels;
  const auto of = [&](int32_t layer) { return context.activations[program.layer(layer).output]; };
  EpilogueCall all{};
  all.low = INT16_MIN;
  all.high = INT16_MAX;
  all.bits = 16;
  all.stride = channels;
  if (chain.clamp != kAbsent) {
    const int32_t* bounds = program.layer(chain.clamp).attributes;
    all.low = bounds[0];
    all.high = bounds[1];
  }
  if (chain.affine != kAbsent) {
    const LayerRecord& affine = program.layer(chain.affine);
    const AffineConstants constants = affine_constants(program, affine);
    all.A = constants.A;
    all.B = constants.B;
    all.s = constants.s;
    all.affine_zero = program.tensor(affine.output).zero_point;
    all.bits = program.tensor(affine.output).bits;
  }
  if (chain.add != kAbsent) {
    const LayerRecord& add = program.layer(chain.add);
    const int32_t* a = add.attributes;
    const bool first = add.inputs[0] == program.layer(chain.affine).output;
    all.shortcut = context.activations[add.inputs[first ? 1 : 0]];
    all.A0 = a[first ? 0 : 1];
    all.A1 = a[first ? 1 : 0];
    all.add_B = a[2];
    all.add_s = a[3];
    all.add_zero = program.tensor(add.output).zero_point;
  }
  const int32_t value = chain.value_layer(program);
  if (value != kAbsent) all.y = of(value);
  if (chain.sign != kAbsent) {
    all.threshold = program.array<int32_t>(program.layer(chain.sign), 0);
    all.signs = static_cast<uint8_t*>(of(chain.sign));
    all.sign_stride = words_for(channels) * int64_t{sizeof(uint64_t)};
    const size_t bytes = static_cast<size_t>(context.batch * context.output().pixels()) * static_cast<size_t>(all.sign_stride);
    if (channels % 64 != 0) std::memset(all.signs, 0, bytes);  // blocks write the bytes of their channels alone
  }
  for_each_binary_sums(context, nullptr, [&] { return ChainUser(all, channels); });
}

}  // namespace everbit
