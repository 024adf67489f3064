#include "network.h"

#include <cstring>
#include <initializer_list>

#include "../layers/binary_convolution.h"

namespace everbit {
namespace {

// Blocks, in order: activations by tensor, gradients by tensor, then by layer: saved, forward scratch, backward scratch; the head's.
struct Blocks {
  Block* activations;
  Block* gradients;
  Block* saved;
  Block* forward_scratch;
  Block* backward_scratch;
  Block* head;

  Blocks(Block* all, const Program& program)
      : activations(all),
        gradients(activations + program.tensor_count()),
        saved(gradients + program.tensor_count()),
        forward_scratch(saved + program.layer_count()),
        backward_scratch(forward_scratch + program.layer_count()),
        head(backward_scratch + program.layer_count()) {}
};

// So many elements of eight bytes, or of one for each of the most threads, fit a size_t.
constexpr int64_t max_batch_elements(size_t address_bytes) { return int64_t{1} << (address_bytes == 4 ? 26 : 30); }

// The largest |q - Z| of a tensor, as it enters products with gradients (gradient_product() in fixed_point.h), at least 2^15: other factors
// of gradients have 15 bits and a sign.
int64_t factor_of(const TensorRecord& tensor) {
  const int64_t least = int64_t{1} << 15;
  if (tensor.bits == 1 || tensor.bits == 32) return least;
  const int64_t half = int64_t{1} << (tensor.bits - 1);
  const int64_t size = tensor.zero_point < 0 ? half - tensor.zero_point : half + tensor.zero_point;
  return size > least ? size : least;
}

// Places of a mini-batch over which a layer that reads `tensor` sums gradients times its values exactly in int64.
int64_t most_places(const TensorRecord& tensor, int q_b) {
  return q_b == 32 ? (int64_t{1} << 32) / factor_of(tensor) : INT64_MAX;
}

constexpr const char* kTooManyPlaces = "the mini-batch is too large for exact sums of 32-bit gradients: lower it, or cut later";

bool one_of(int value, std::initializer_list<int> allowed) {
  for (const int a : allowed) {
    if (value == a) return true;
  }
  return false;
}

}  // namespace

const char* Network::check(const Program& program, Widths widths, int64_t batch, const Processor& processor) {
  if (!one_of(widths.binary, {1, 4, 8, 16, 32})) return "binary layers' weights must have 1, 4, 8, 16 or 32 bits";
  if (!one_of(widths.non_binary, {8, 16, 32})) return "gradients and other weights must have 8, 16 or 32 bits";
  if (batch < 1) return "a mini-batch needs at least one pattern";
  if (batch > most_places(program.feature_tensor(), widths.non_binary)) return kTooManyPlaces;
  for (int32_t i = program.latent_layer(); i < program.layer_count(); ++i) {
    const LayerRecord& layer = program.layer(i);
    const TensorRecord& tensor = program.tensor(layer.output);
    if (batch > max_batch_elements(processor.address_bytes) / tensor.elements()) return "the mini-batch is too large";
    for (const int32_t parameter : layer.parameters) {
      if (parameter != kAbsent && batch > most_places(program.tensor(layer.inputs[0]), widths.non_binary) / tensor.pixels()) {
        return kTooManyPlaces;
      }
    }
  }
  return nullptr;
}

size_t Network::block_count(const Program& program) {
  return 2 * static_cast<size_t>(program.tensor_count()) + 3 * static_cast<size_t>(program.layer_count()) + 1;
}

bool Network::trainable(int32_t layer) const {
  if (!train_ || layer <= program_.latent_layer()) return false;
  for (const int32_t index : program_.layer(layer).parameters) {
    if (index == kAbsent) continue;
    if (program_.parameter(index).kind != ParameterKind::kBinary || widths_.binary > 1) return true;
  }
  return false;
}

bool Network::learns() const {
  for (int32_t i = 0; i < program_.layer_count(); ++i) {
    if (trainable(i)) return true;
  }
  return false;
}

size_t Network::plan(const Program& program, Widths widths, int32_t batch, int threads, size_t head_bytes, bool train, bool keep_all,
                     Block* blocks, Region& persistent, Region& fixed, const Processor& processor) {
  program_ = program;
  widths_ = widths;
  batch_ = batch;
  threads_ = threads;
  train_ = train;
  const size_t tensors = static_cast<size_t>(program.tensor_count());
  const size_t layers = static_cast<size_t>(program.layer_count());
  activations_ = fixed.take<void*>(tensors);
  gradients_ = fixed.take<Gradient>(tensors);
  parameters_ = fixed.take<Parameter>(static_cast<size_t>(program.parameter_count()));
  binary_ = fixed.take<BinaryWeights>(layers);
  saved_ = fixed.take<void*>(layers);
  forward_scratch_ = fixed.take<void*>(layers);
  backward_scratch_ = fixed.take<void*>(layers);
  chains_ = fixed.take<BinaryChain>(layers);

  for (int32_t i = 0; i < program.layer_count(); ++i) {
    const LayerRecord& layer = program.layer(i);
    const bool learnable = i > program.latent_layer();
    if (layer.operation == Operation::kBinaryConvolution) {
      int16_t* tap_sums = fixed.take<int16_t>(static_cast<size_t>(binary_tap_sums(program, layer)));
      const bool learns = trainable(i);
      uint64_t* learned = learns ? persistent.take<uint64_t>(binary_weight_words(program, layer)) : nullptr;
      if (binary_ != nullptr) binary_[i] = {program.array<uint64_t>(layer, 0), learned, tap_sums};
    }
    for (const int32_t index : layer.parameters) {
      if (index == kAbsent) continue;
      const ParameterRecord& record = program.parameter(index);
      const bool binary = record.kind == ParameterKind::kBinary;
      const int width = !learnable ? 32 : binary ? widths.binary : widths.non_binary;
      const int32_t count = binary ? binary_weight_count(program, layer) : record.count;
      const bool stored = learnable && (binary ? trainable(i) : true);
      uint8_t* values = stored ? persistent.take<uint8_t>(stored_bytes(count, width)) : nullptr;
      if (parameters_ == nullptr) continue;
      parameters_[index] = {record.kind, count, binary ? 0 : record.range_exponent, width, values, stored, {}};
    }
  }
  guarded_blocks_ = fixed.take<Block>(kRedZone == 0 ? 0 : block_count(program));
  keep_all_ = keep_all;
  plan_blocks(head_bytes, blocks, processor);
  shared_bytes_ = place_blocks(blocks, block_count(program));
  return shared_bytes_;
}

void Network::plan_blocks(size_t head_bytes, Block* blocks, const Processor& processor) const {
  const Blocks plan(blocks, program_);
  const int32_t layers = program_.layer_count();
  const int32_t end = 2 * layers;
  for (size_t i = 0; i < block_count(program_); ++i) blocks[i] = Block{};

  BinaryChain chain = chain_at(0);
  for (int32_t i = 0; i < layers; ++i) {
    const LayerRecord& layer = program_.layer(i);
    const LayerKind& kind = layer_kind(layer.operation);
    const bool learnable = i > program_.latent_layer();
    const int32_t batch = i >= program_.latent_layer() ? batch_ : 1;
    const Extent extent{program_, layer, batch, widths_, threads_, processor};

    Block& made = plan.activations[layer.output];
    if (i > chain.last) chain = chain_at(i);
    if (chains_ != nullptr) chains_[i] = chain;
    made.bytes = chain.stores(program_, i) ? activation_bytes(program_.tensor(layer.output), batch) : 0;
    made.first = made.last = chain.convolution;  // a layer that is no chain's stands for itself
    // A tensor's gradient is needed where a trainable layer made it, or made something it was made from.
    Block& gradient = plan.gradients[layer.output];
    bool needed = trainable(i);
    for (int k = 0; k < kind.inputs; ++k) needed = needed || plan.gradients[layer.inputs[k]].bytes != 0;
    if (needed) {
      gradient.bytes = static_cast<size_t>(batch) * static_cast<size_t>(program_.tensor(layer.output).elements()) *
                       static_cast<size_t>(widths_.non_binary / 8);
      gradient.first = layers;  // until its readers, which come later in the list, say otherwise
      gradient.last = end - i;
    }
    for (int k = 0; k < kind.inputs; ++k) {
      Block& read = plan.activations[layer.inputs[k]];
      const int32_t backward = end - i;
      const int32_t until = learnable && train_ && kind.backward_reads_input ? backward : i;
      read.last = until > read.last ? until : read.last;
      plan.gradients[layer.inputs[k]].first = backward;  // the last reader, met last here, writes first
    }
    if (learnable && train_ && kind.saved_bytes != nullptr) plan.saved[i] = {kind.saved_bytes(extent), i, end - i};
    if (kind.scratch_bytes != nullptr) {
      plan.forward_scratch[i] = {kind.scratch_bytes(extent), i, i};
      if (learnable && train_) plan.backward_scratch[i] = {kind.scratch_bytes(extent), end - i, end - i};
    }
  }
  plan.activations[program_.layer(layers - 1).output].last = layers;
  *plan.head = {head_bytes, layers, layers};
  if (!keep_all_) return;
  for (size_t i = 0; i < block_count(program_); ++i) {
    blocks[i].first = 0;
    blocks[i].last = end;
  }
}

void Network::start(uint8_t* shared, const Block* blocks) {
  const Blocks plan(const_cast<Block*>(blocks), program_);
  const auto at = [&](const Block& block) -> void* { return block.bytes == 0 ? nullptr : shared + block.offset; };
  for (int32_t i = 0; i < program_.tensor_count(); ++i) {
    activations_[i] = at(plan.activations[i]);
    gradients_[i] = Gradient{at(plan.gradients[i]), 0, false};
  }
  for (int32_t i = 0; i < program_.layer_count(); ++i) {
    saved_[i] = at(plan.saved[i]);
    forward_scratch_[i] = at(plan.forward_scratch[i]);
    backward_scratch_[i] = at(plan.backward_scratch[i]);
  }
  head_memory_ = at(*plan.head);
  shared_ = shared;
  if (kRedZone != 0) std::memcpy(guarded_blocks_, blocks, block_count(program_) * sizeof(Block));

  for (int32_t i = 0; i < program_.parameter_count(); ++i) {
    const ParameterRecord& record = program_.parameter(i);
    const LayerRecord& layer = program_.layer(record.layer);
    Parameter& p = parameters_[i];
    const int32_t* initial = program_.parameter_values(i);
    if (!p.trainable) {
      if (p.kind != ParameterKind::kBinary) p.values = const_cast<int32_t*>(initial);  // constants, never set()
    } else if (p.kind == ParameterKind::kBinary) {
      initialise_latent_weights(program_, layer, program_.array<uint64_t>(layer, 0), *initial, p.width, p.values);
    } else {
      for (int32_t k = 0; k < p.count; ++k) p.set(k, saturate_symmetric(rounding_shift(initial[k], 32 - p.width), p.width));
    }
  }
  for (int32_t i = 0; i < program_.layer_count(); ++i) {
    BinaryWeights& weights = binary_[i];
    if (program_.layer(i).operation != Operation::kBinaryConvolution || weights.learned == nullptr) continue;
    std::memcpy(weights.learned, weights.bits, binary_weight_words(program_, program_.layer(i)) * sizeof(uint64_t));
    weights.bits = weights.learned;
  }
  refresh();
}

void Network::refresh() {
  for (int32_t i = 0; i < program_.layer_count(); ++i) {
    const LayerRecord& layer = program_.layer(i);
    if (layer.operation == Operation::kBinaryConvolution) refresh_tap_sums(program_, layer, binary_[i], threads_);
  }
}

Context Network::context(int32_t layer, int32_t batch, bool training, bool backward, const uint8_t* images,
                         const Scale* step) const {
  return {program_,    program_.layer(layer), batch,
          widths_,     threads_,              activations_,
          gradients_,  parameters_,           &binary_[layer],
          saved_[layer],
          backward ? backward_scratch_[layer] : forward_scratch_[layer],
          images,      training,              step};
}

void Network::open_blocks(const MemoryGuard& guard, int32_t layer) const {
  if (kRedZone == 0) return;
  const Blocks plan(guarded_blocks_, program_);
  const LayerRecord& record = program_.layer(layer);
  guard.open(plan.activations[record.output]);
  guard.open(plan.gradients[record.output]);
  for (int k = 0; k < layer_kind(record.operation).inputs; ++k) {
    guard.open(plan.activations[record.inputs[k]]);
    guard.open(plan.gradients[record.inputs[k]]);
  }
  guard.open(plan.saved[layer]);
  guard.open(plan.forward_scratch[layer]);
  guard.open(plan.backward_scratch[layer]);
}

void Network::run_forward(int32_t layer, int32_t batch, bool training, const uint8_t* images) const {
  const MemoryGuard guard(shared_, shared_bytes_, layer);
  open_blocks(guard, layer);
  layer_kind(program_.layer(layer).operation).forward(context(layer, batch, training, false, images, nullptr));
}

void Network::run_backward(int32_t layer, int32_t batch, const Scale* step) const {
  const MemoryGuard guard(shared_, shared_bytes_, 2 * program_.layer_count() - layer);
  open_blocks(guard, layer);
  layer_kind(program_.layer(layer).operation).backward(context(layer, batch, true, true, nullptr, step));
}

BinaryChain Network::chain_at(int32_t layer) const {
  return keep_all_ ? BinaryChain{layer, layer} : binary_chain(program_, layer);
}

void Network::forward_frozen(const uint8_t* image) const {
  for (int32_t i = 0; i < program_.latent_layer(); ++i) {
    const BinaryChain& chain = chains_[i];
    if (!chain.exists()) {
      run_forward(i, 1, false, image);
      continue;
    }
    const MemoryGuard guard(shared_, shared_bytes_, i);
    for (int32_t member = i; member <= chain.last; ++member) open_blocks(guard, member);
    binary_chain_forward(context(i, 1, false, false, nullptr, nullptr), chain);
    i = chain.last;
  }
}

void Network::forward_learnable(int32_t batch, bool training) const {
  for (int32_t i = program_.latent_layer() + 1; i < program_.layer_count(); ++i) {
    run_forward(i, batch, training, nullptr);
  }
}

void Network::forward_layer(int32_t layer, int32_t batch) const {
  run_forward(layer, batch, false, nullptr);
}

int32_t Network::train_head(Head& head, const uint16_t* labels, int32_t batch, Scale step, Rounding rounding) const {
  const int32_t features = program_.layer(program_.layer_count() - 1).output;
  const MemoryGuard guard(shared_, shared_bytes_, program_.layer_count());
  if (kRedZone != 0) {
    const Blocks plan(guarded_blocks_, program_);
    for (const Block* block : {&plan.activations[features], &plan.gradients[features], plan.head}) guard.open(*block);
  }
  return head.train(activations_[features], labels, batch, step, rounding, gradients_[features], head_memory_);
}

void Network::backward(int32_t batch, const Scale* step, Rounding rounding) const {
  for (int32_t i = 0; i < program_.parameter_count(); ++i) parameters_[i].rounding = rounding_of_parameter(rounding, i);
  const int32_t features = program_.layer(program_.layer_count() - 1).output;
  for (int32_t i = 0; i < program_.tensor_count(); ++i) {
    if (i != features) gradients_[i].present = false;
  }
  for (int32_t i = program_.layer_count() - 1; i > program_.latent_layer(); --i) {
    const Gradient& gradient = gradients_[program_.layer(i).output];
    if (gradient.values == nullptr || !gradient.present) continue;  // nobody needs it, or nothing came from it
    run_backward(i, batch, step);
  }
}

}  // namespace everbit
