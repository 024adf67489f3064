// The cut: what the replay memory stores of an activation, and what the learnable part sees of it (docs/arithmetic.md, section 3).
#include <cstring>

#include "../bits.h"
#include "affine.h"
#include "layers.h"

namespace everbit {
namespace {

enum Attribute { kBits, kEncodeA, kEncodeB, kEncodeShift, kDecodeA, kDecodeB, kDecodeShift };
enum Array { kThreshold, kLow, kHigh };

const LayerRecord& latent_record(const Program& program) { return program.layer(program.latent_layer()); }

// |A| <= 2^15 for values of 16 signed bits; codes of 16 bits have no sign and allow half of that: products stay within 2^30.
bool valid_affine(const int32_t* attributes, int A, int32_t limit) {
  return attributes[A] >= -limit && attributes[A] < limit && attributes[A + 1] <= kMaxAffineOffset &&
         attributes[A + 1] >= -kMaxAffineOffset && attributes[A + 2] >= 0 && attributes[A + 2] <= kMaxAffineShift;
}

int32_t apply(const int32_t* attributes, int A, int32_t q) {
  return rounding_shift32(q * attributes[A] + attributes[A + 1], attributes[A + 2]);
}

}  // namespace

const char* latent_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || in.bits != out.bits || in.zero_point != out.zero_point || in.height != out.height || in.width != out.width ||
      in.channels != out.channels) {
    return "the latent must keep the shape and the numbers of the activation it cuts";
  }
  const int32_t bits = layer.attributes[kBits];
  if (bits < 1 || bits > 16) return "the latent must have 1 to 16 bits";
  if (bits == 1) {
    const bool complete = layer.arrays[kThreshold].bytes == in.channels * 4 && layer.arrays[kLow].bytes == in.channels * 2 &&
                          layer.arrays[kHigh].bytes == in.channels * 2;
    return complete ? nullptr : "a one-bit latent needs a threshold, a low and a high value for every channel";
  }
  const int32_t limit = 1 << 15;
  return valid_affine(layer.attributes, kEncodeA, limit) && valid_affine(layer.attributes, kDecodeA, bits == 16 ? limit / 2 : limit)
             ? nullptr
             : "the latent's constants are out of range";
}

size_t latent_bytes(const Program& program) {
  const size_t bits = static_cast<size_t>(program.latent_tensor().elements()) *
                      static_cast<size_t>(latent_record(program).attributes[kBits]);
  return (bits + 7) / 8;
}

void latent_encode(const Program& program, const void* values, uint8_t* codes) {
  const LayerRecord& layer = latent_record(program);
  const TensorRecord& tensor = program.latent_tensor();
  const int bits = layer.attributes[kBits];
  const int32_t* threshold = program.array<int32_t>(layer, kThreshold);
  const int32_t top = (int32_t{1} << bits) - 1;
  std::memset(codes, 0, latent_bytes(program));
  with_activation_type(tensor.bits, [&](auto type) {
    const auto* x = static_cast<const decltype(type)*>(values);
    for (int32_t i = 0; i < tensor.elements(); ++i) {
      int32_t code;
      if (bits == 1) {
        code = x[i] >= threshold[i % tensor.channels];
      } else {
        code = apply(layer.attributes, kEncodeA, x[i]);
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
  const int16_t* low = program.array<int16_t>(layer, kLow);
  const int16_t* high = program.array<int16_t>(layer, kHigh);
  with_activation_type(tensor.bits, [&](auto type) {
    using T = decltype(type);
    T* y = static_cast<T*>(values);
    for (int32_t i = 0; i < tensor.elements(); ++i) {
      const int32_t code = static_cast<int32_t>(read_bits(codes, static_cast<size_t>(i) * static_cast<size_t>(bits), bits));
      const int32_t c = i % tensor.channels;
      const int32_t q = bits == 1 ? (code != 0 ? high[c] : low[c]) : apply(layer.attributes, kDecodeA, code);
      y[i] = static_cast<T>(saturate(q, tensor.bits));
    }
  });
}

}  // namespace everbit
