// What alone reads a binary convolution of the frozen part, up to the next sign, in the pass that makes its sums: they and what lies
// between are never stored. The same rules, one after the other, as the layers by themselves.
#pragma once

#include "layer.h"

namespace everbit {

// Layers of a chain, by index; kAbsent where it has none of that kind. They follow one another in the program.
struct BinaryChain {
  int32_t convolution = kAbsent;
  int32_t last = kAbsent;
  int32_t clamp = kAbsent;
  int32_t affine = kAbsent;
  int32_t add = kAbsent;
  int32_t sign = kAbsent;

  bool exists() const { return last != convolution; }
  // The layer whose values are stored besides the signs: the sign's input, where anyone else reads it.
  int32_t value_layer(const Program&) const;
  // Whether what a layer of the chain, or one that is no chain's, gives is stored.
  bool stores(const Program&, int32_t layer) const;
};

// The chain that starts at a layer; one of a single layer where it is no frozen binary convolution, or nothing can join it.
BinaryChain binary_chain(const Program&, int32_t first);

// context: of the convolution.
void binary_chain_forward(const Context& context, const BinaryChain&);

}  // namespace everbit
