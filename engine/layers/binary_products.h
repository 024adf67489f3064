// The three products of a binary convolution or dense layer, outside of a program: for a trainer that keeps numbers of its own
// (src/everbit/nn/low_memory_training). The sums and the scratch are the layer's; only what becomes of the sums is the caller's.
#pragma once

#include "binary_convolution.h"

namespace everbit {

class BinaryProducts {
 public:
  BinaryProducts() = default;
  BinaryProducts(const BinaryProducts&) = delete;  // its program points to it
  BinaryProducts& operator=(const BinaryProducts&) = delete;

  // in: bits, out: sums; both of one image. pad_value: -1, 0 or +1. batch: the most images of one call. Returns nullptr, or why the engine
  // has no such product.
  const char* open(const TensorRecord& in, const TensorRecord& out, const Window& window, int32_t pad_value, int32_t batch, int threads);

  size_t weight_words() const;
  size_t scratch_bytes() const;

  // Arrays as in a program: x [images][height][width][words], weights [ceil(C_out / 8)][taps * words][8], g and z [images][places][C_out].
  // scratch: scratch_bytes(), aligned to 64 bytes. Gradients have 15 bits and a sign.
  void sums(const uint64_t* x, const uint64_t* weights, int32_t images, void* scratch, int16_t* z) const;
  // dX [images][height][width][C_in].
  void input_gradient(const int16_t* g, const uint64_t* weights, int32_t images, void* scratch, int32_t* dx) const;
  // dW [C_out][taps][C_in].
  void weight_gradient(const int16_t* g, const uint64_t* x, int32_t images, void* scratch, int32_t* dw) const;

 private:
  TensorRecord tensors_[2];
  LayerRecord layer_;
  Program program_;
  int32_t batch_ = 0;
  int threads_ = 1;
};

}  // namespace everbit
