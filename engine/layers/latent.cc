// The cut: what the replay memory stores of an activation, and what the learnable part sees of it (docs/arithmetic.md, section 3).
#include <cstring>
#include <type_traits>

#include "../bits.h"
#include "affine.h"
#include "layers.h"

namespace everbit {
namespace {

enum Attribute { kBits, kEncodeA, kEncodeB, kEncodeShift, kDecodeA, kDecodeB, kDecodeShift };
enum Array { kThreshold, kLow, kHigh };

const LayerRecord& latent_record(const Program& program) { return program.layer(program.latent_layer()); }

// Bits of all codes of one image.
size_t code_bits(const Program& program) {
  return static_cast<size_t>(program.latent_tensor().elements()) * static_cast<size_t>(latent_record(program).attributes[kBits]);
}

// |A| <= 2^15 for values of 16 signed bits; codes of 16 bits have no sign and allow half of that: products stay within 2^30.
bool valid_affine(const int32_t* attributes, int A, int32_t least, int32_t most) {
  return attributes[A] >= least && attributes[A] <= most && attributes[A + 1] <= kMaxAffineOffset &&
         attributes[A + 1] >= -kMaxAffineOffset && attributes[A + 2] >= 0 && attributes[A + 2] <= kMaxAffineShift;
}

int32_t apply(const int32_t* attributes, int A, int32_t q) {
  return rounding_shift32(q * attributes[A] + attributes[A + 1], attributes[A + 2]);
}

// Values of 32 bits: B counts in steps of the tensor, so that it fits an attribute. A difference of two of them has 33 bits, A 30.
bool valid_wide(const int32_t* attributes) {
  return attributes[kEncodeA] >= -kMaxWideFactor && attributes[kEncodeA] <= kMaxWideFactor && attributes[kEncodeShift] >= 0 &&
         attributes[kEncodeShift] <= kMaxWideShift && attributes[kDecodeShift] >= 0 && attributes[kDecodeShift] <= kMaxWideShift;
}

template <typename T>
int64_t code_of(const int32_t* attributes, T q) {
  if constexpr (sizeof(T) == sizeof(int32_t)) {
    return rounding_shift((int64_t{q} - attributes[kEncodeB]) * attributes[kEncodeA], attributes[kEncodeShift]);
  } else {
    return apply(attributes, kEncodeA, q);
  }
}

template <typename T>
int64_t value_of(const int32_t* attributes, int32_t code) {
  if constexpr (sizeof(T) == sizeof(int32_t)) {
    return attributes[kDecodeB] + rounding_shift(int64_t{code} * attributes[kDecodeA], attributes[kDecodeShift]);
  } else {
    return apply(attributes, kDecodeA, code);
  }
}

// Calls f(i, word, bit) for every bit of a 1-bit tensor of one image: its number in row-major order, and where it stands.
template <typename F>
void for_each_bit(const TensorRecord& tensor, F&& f) {
  const int32_t words = words_for(tensor.channels);
  for (int32_t p = 0; p < tensor.pixels(); ++p) {
    for (int32_t c = 0; c < tensor.channels; ++c) f(p * tensor.channels + c, p * words + c / 64, c % 64);
  }
}

// The low and high levels of a one-bit latent have the width of its values, at least 16 bits.
template <typename T>
using Level = std::conditional_t<sizeof(T) == sizeof(int32_t), int32_t, int16_t>;

template <typename T>
T level(int32_t code, int32_t low, int32_t high) {
  return static_cast<T>(saturate(code != 0 ? high : low, 8 * static_cast<int>(sizeof(T))));
}

}  // namespace

const char* latent_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits != out.bits || in.zero_point != out.zero_point || in.height != out.height || in.width != out.width ||
      in.channels != out.channels) {
    return "the latent must keep the shape and the numbers of the activation it cuts";
  }
  const int32_t bits = layer.attributes[kBits];
  if (bits < 1 || bits > 16) return "the latent must have 1 to 16 bits";
  if (in.bits == 1) return bits == 1 ? nullptr : "the latent of single bits must have 1 bit";
  if (bits == 1) {
    const int32_t level_bytes = in.channels * (in.bits == 32 ? 4 : 2);
    const bool complete = layer.arrays[kThreshold].bytes == in.channels * 4 && layer.arrays[kLow].bytes == level_bytes &&
                          layer.arrays[kHigh].bytes == level_bytes;
    return complete ? nullptr : "a one-bit latent needs a threshold, a low and a high value for every channel";
  }
  const int32_t half = 1 << 14;
  const bool valid = in.bits == 32 ? valid_wide(layer.attributes)
                                   : valid_affine(layer.attributes, kEncodeA, INT16_MIN, INT16_MAX) &&
                                         valid_affine(layer.attributes, kDecodeA, bits == 16 ? -half : INT16_MIN,
                                                      bits == 16 ? half : INT16_MAX);
  return valid ? nullptr : "the latent's constants are out of range";
}

size_t latent_bytes(const Program& program) { return (code_bits(program) + 7) / 8; }

void latent_copy(const Program& program, const uint8_t* from, uint8_t* codes) {
  const size_t bytes = latent_bytes(program);
  std::memcpy(codes, from, bytes);
  codes[bytes - 1] = static_cast<uint8_t>(codes[bytes - 1] & (0xff >> (8 * bytes - code_bits(program))));
}

void latent_encode(const Program& program, const void* values, uint8_t* codes) {
  const LayerRecord& layer = latent_record(program);
  const TensorRecord& tensor = program.latent_tensor();
  const int bits = layer.attributes[kBits];
  const int32_t* threshold = program.array<int32_t>(layer, kThreshold);
  const int64_t top = (int64_t{1} << bits) - 1;
  std::memset(codes, 0, latent_bytes(program));
  if (tensor.bits == 1) {
    const uint64_t* words = static_cast<const uint64_t*>(values);
    for_each_bit(tensor, [&](int32_t i, int32_t word, int bit) { write_bits(codes, static_cast<size_t>(i), 1, (words[word] >> bit) & 1); });
    return;
  }
  with_activation_type(tensor.bits, [&](auto type) {
    const auto* x = static_cast<const decltype(type)*>(values);
    for (int32_t i = 0; i < tensor.elements(); ++i) {
      int64_t code;
      if (bits == 1) {
        code = x[i] >= threshold[i % tensor.channels];
      } else {
        code = code_of(layer.attributes, x[i]);
        code = code < 0 ? 0 : code > top ? top : code;
      }
      write_bits(codes, static_cast<size_t>(i) * static_cast<size_t>(bits), bits, static_cast<uint32_t>(code));
    }
  });
}

void latent_decode(const Program& program, const uint8_t* codes, void* values) {
  const LayerRecord& layer = latent_record(program);
  const TensorRecord& tensor = program.latent_tensor();
  const int bits = layer.attributes[kBits];
  if (tensor.bits == 1) {
    std::memset(values, 0, activation_bytes(tensor, 1));
    uint64_t* words = static_cast<uint64_t*>(values);
    for_each_bit(tensor, [&](int32_t i, int32_t word, int bit) {
      words[word] |= uint64_t{read_bits(codes, static_cast<size_t>(i), 1)} << bit;
    });
    return;
  }
  with_activation_type(tensor.bits, [&](auto type) {
    using T = decltype(type);
    const auto* low = program.array<Level<T>>(layer, kLow);
    const auto* high = program.array<Level<T>>(layer, kHigh);
    T* y = static_cast<T*>(values);
    if (bits == 1 && tensor.channels % 8 == 0) {  // whole bytes of codes belong to a pixel: eight values at once
      for (int32_t i = 0; i < tensor.elements(); i += 8) {
        const int32_t c = i % tensor.channels;
        for (int32_t k = 0; k < 8; ++k) y[i + k] = level<T>((codes[i / 8] >> k) & 1, low[c + k], high[c + k]);
      }
      return;
    }
    for (int32_t i = 0; i < tensor.elements(); ++i) {
      const int32_t code = static_cast<int32_t>(read_bits(codes, static_cast<size_t>(i) * static_cast<size_t>(bits), bits));
      const int32_t c = i % tensor.channels;
      y[i] = bits == 1 ? level<T>(code, low[c], high[c]) : static_cast<T>(saturate(value_of<T>(layer.attributes, code), tensor.bits));
    }
  });
}

}  // namespace everbit
