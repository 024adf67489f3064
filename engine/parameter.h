// A trainable tensor in memory, at the width the learner chose (docs/arithmetic.md, section 2).
#pragma once

#include <cstddef>
#include <cstdint>

#include "fixed_point.h"
#include "memory.h"
#include "program.h"
#include "random.h"

namespace everbit {

// Bits of the learner's numbers. q_f is not here: it is the width of the program's tensors.
struct Widths {
  int binary;      // q_bin: 1, 4, 8, 16, 32
  int non_binary;  // q_nonbin = q_b: 8, 16, 32
};

// Latent weights of 4 bits lie two to a byte, even index in the low half.
inline size_t stored_bytes(int32_t count, int width) {
  const size_t w = static_cast<size_t>(width);
  return saturating_sum(saturating_product(static_cast<size_t>(count) / 8, w), (static_cast<size_t>(count) % 8 * w + 7) / 8);
}

inline int32_t load_value(const void* values, int32_t index, int width) {
  switch (width) {
    case 4: {
      const uint8_t byte = static_cast<const uint8_t*>(values)[index >> 1];
      const int32_t nibble = (index & 1) != 0 ? byte >> 4 : byte & 15;
      return nibble >= 8 ? nibble - 16 : nibble;
    }
    case 8: return static_cast<const int8_t*>(values)[index];
    case 16: return static_cast<const int16_t*>(values)[index];
    default: return static_cast<const int32_t*>(values)[index];
  }
}

inline void store_value(void* values, int32_t index, int width, int32_t value) {
  switch (width) {
    case 4: {
      uint8_t& byte = static_cast<uint8_t*>(values)[index >> 1];
      const uint8_t nibble = static_cast<uint8_t>(value & 15);
      byte = (index & 1) != 0 ? static_cast<uint8_t>((byte & 0x0f) | (nibble << 4))
                              : static_cast<uint8_t>((byte & 0xf0) | nibble);
      return;
    }
    case 8: static_cast<int8_t*>(values)[index] = static_cast<int8_t>(value); return;
    case 16: static_cast<int16_t*>(values)[index] = static_cast<int16_t>(value); return;
    default: static_cast<int32_t*>(values)[index] = value;
  }
}

// A parameter of 8, 16 or 32 bits as the forward pass sees it, real value * 2^(range_exponent - 15).
inline int32_t forward16(int32_t p, int width) {
  if (width == 32) return saturate_symmetric(rounding_shift(p, 16), 16);
  return width == 8 ? p * 256 : p;
}

// The same in 8 bits, for the weights of ordinary convolutions.
inline int32_t forward8(int32_t p, int width) { return saturate_symmetric(rounding_shift(p, width - 8), 8); }

struct Parameter {
  ParameterKind kind;
  int32_t count;
  int32_t range_exponent;
  int width;           // of `values`; 32 for the constants of the frozen part
  void* values;        // absent (nullptr) for binary weights of q_bin 1
  bool trainable;
  Rounding rounding{};

  int32_t get(int32_t i) const { return load_value(values, i, width); }
  void set(int32_t i, int32_t value) { store_value(values, i, width, value); }

  int32_t forward16(int32_t i) const { return everbit::forward16(get(i), width); }
};

struct ParameterWith32BitAddresses {
  int32_t numbers[4];
  uint32_t values;
  bool trainable;
  Rounding rounding;
};
template <>
struct With32BitAddresses<Parameter> {
  using Type = ParameterWith32BitAddresses;
};
static_assert(sizeof(void*) != 4 || sizeof(Parameter) == sizeof(ParameterWith32BitAddresses));

// The signs of a binary convolution's weights, [ceil(C_out / 8)][taps * words][8] words as in the program image.
struct BinaryWeights {
  const uint64_t* bits;
  uint64_t* learned;   // the same memory where the layer learns, else nullptr
  int16_t* tap_sums;   // [taps][C_out]: sum of the +-1 weights under one tap, for the borders (kernels/xnor_gemm/xnor_gemm.h)
};

template <>
struct With32BitAddresses<BinaryWeights> {
  using Type = uint32_t[3];
};
static_assert(sizeof(BinaryWeights) == 3 * sizeof(void*));

}  // namespace everbit
