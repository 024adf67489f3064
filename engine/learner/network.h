// The layers of a program with their numbers in memory: runs them forward and backward.
//
// Time, for the memory plan, is forward of layer i at moment i, the head at moment L (the number of layers), backward of layer i at
// moment 2 L - i. The frozen part sees one image at a time, the learnable part a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../layers/binary_chain.h"
#include "../layers/layer.h"
#include "head.h"
#include "memory_guard.h"

namespace everbit {

class Network {
 public:
  // nullptr, or why the network cannot run at these widths on a batch: plan() needs a sound answer.
  static const char* check(const Program& program, Widths widths, int64_t batch, const Processor& processor = this_processor());

  // Blocks that plan() needs as work space; the caller's, so that nothing here allocates. In order: activations by tensor, gradients by
  // tensor, then by layer what is saved for the backward pass, forward scratch, backward scratch; the head's scratch.
  static size_t block_count(const Program& program);

  // Takes from `persistent` what a saved learner must keep (parameters, weight bits), from `fixed` tables and derived values.
  // Returns the bytes of the memory that layers share, of which the head gets `head_bytes` at its moment. Regions may be counting only.
  // threads: how many may work at once. train: the learnable part will learn. keep_all: no two tensors share
  // memory, so that a test can read every one. processor: whose plan it is; only one for this processor can be started.
  size_t plan(const Program& program, Widths widths, int32_t batch, int threads, size_t head_bytes, bool train, bool keep_all,
              Block* blocks, Region& persistent, Region& fixed, const Processor& processor = this_processor());

  // Connects the planned tensors to the shared memory, copies the parameters' initial values from the program.
  void start(uint8_t* shared, const Block* blocks);
  // Recomputes what derives from the parameters, after they were restored from elsewhere.
  void refresh();

  const Program& program() const { return program_; }
  Widths widths() const { return widths_; }
  void* activation(int32_t tensor) const { return activations_[tensor]; }
  Gradient& gradient(int32_t tensor) const { return gradients_[tensor]; }
  Parameter& parameter(int32_t index) const { return parameters_[index]; }
  BinaryWeights& binary_weights(int32_t layer) const { return binary_[layer]; }
  // The head's scratch, which begins with the logits of a mini-batch.
  int32_t* head_memory() const { return static_cast<int32_t*>(head_memory_); }
  // Whether any layer between the latent and the head can learn.
  bool learns() const;

  // The frozen part on one image: writes the latent layer's input tensor.
  void forward_frozen(const uint8_t* image) const;
  // The learnable part on `batch` latents, which stand decoded in the latent layer's output tensor.
  void forward_learnable(int32_t batch, bool training) const;
  // One layer of the learnable part alone, on what its input tensors hold.
  void forward_layer(int32_t layer, int32_t batch) const;
  // One step of the head on what forward_learnable() left, and the gradient of the last tensor where a layer learns (Head::train).
  int32_t train_head(Head& head, const uint16_t* labels, int32_t batch, Scale step, Rounding rounding) const;
  // From the gradient of the last tensor down to the latent, updating parameters; step: learning rate / batch by ParameterKind;
  // rounding: of this step's updates.
  void backward(int32_t batch, const Scale* step, Rounding rounding) const;

 private:
  Context context(int32_t layer, int32_t batch, bool training, bool backward, const uint8_t* images, const Scale* step) const;
  void open_blocks(const MemoryGuard& guard, int32_t layer) const;
  void run_forward(int32_t layer, int32_t batch, bool training, const uint8_t* images) const;
  void run_backward(int32_t layer, int32_t batch, const Scale* step) const;
  bool trainable(int32_t layer) const;
  void plan_blocks(size_t head_bytes, Block* blocks, const Processor& processor) const;
  // The layers that run as one with the one named; it alone where every tensor is kept.
  BinaryChain chain_at(int32_t layer) const;

  Program program_;
  Widths widths_{};
  int32_t batch_ = 0;
  int threads_ = 1;
  bool train_ = false;
  bool keep_all_ = false;
  void** activations_ = nullptr;        // by tensor
  Gradient* gradients_ = nullptr;       // by tensor
  Parameter* parameters_ = nullptr;     // by parameter
  BinaryWeights* binary_ = nullptr;     // by layer
  void** saved_ = nullptr;              // by layer
  void** forward_scratch_ = nullptr;    // by layer
  void** backward_scratch_ = nullptr;   // by layer
  BinaryChain* chains_ = nullptr;       // by layer: the one it belongs to
  void* head_memory_ = nullptr;
  uint8_t* shared_ = nullptr;
  size_t shared_bytes_ = 0;
  Block* guarded_blocks_ = nullptr;     // the plan, where the address sanitizer guards it
};

}  // namespace everbit
