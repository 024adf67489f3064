// Convolution of +-1 activations with +-1 weights: the exact integer sum, |z| <= K <= 32767. How the sums are made stands in
// binary_sums.h, the gradients in binary_convolution_gradient.cc.
#include "binary_sums.h"
#include "../parallel.h"
#include "layers.h"

namespace everbit {
namespace {

constexpr int kBits = 0;  // array

}  // namespace

size_t binary_weight_words(const Program& program, const LayerRecord& layer) {
  const size_t steps = static_cast<size_t>(binary_window(layer).taps()) *
                       static_cast<size_t>(words_for(program.tensor(layer.inputs[0]).channels));
  return static_cast<size_t>(words_for(program.tensor(layer.output).channels * 8)) * steps * 8;
}

int32_t binary_weight_count(const Program& program, const LayerRecord& layer) {
  return binary_window(layer).taps() * program.tensor(layer.inputs[0]).channels * program.tensor(layer.output).channels;
}

int32_t binary_tap_sums(const Program& program, const LayerRecord& layer) {
  return binary_window(layer).taps() * program.tensor(layer.output).channels;
}

void refresh_tap_sums(const Program& program, const LayerRecord& layer, const BinaryWeights& weights, int threads) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const int32_t taps = binary_window(layer).taps();
  const int32_t words = words_for(in.channels);
  const int32_t channels = program.tensor(layer.output).channels;
  parallel_for(threads, channels, kElementGrain / (taps * words * 64) + 1, [&](int64_t first, int64_t last, int) {
    for (int32_t o = static_cast<int32_t>(first); o < last; ++o) {
      for (int32_t tap = 0; tap < taps; ++tap) {
        int32_t ones = 0;
        for (int32_t w = 0; w < words; ++w) ones += popcount(*binary_weight_word(weights.bits, o, tap * words + w, taps * words));
        weights.tap_sums[tap * channels + o] = static_cast<int16_t>(2 * ones - in.channels);
      }
    }
  });
}

void initialise_latent_weights(const Program& program, const LayerRecord& layer, const uint64_t* bits, int32_t magnitude, int width,
                               void* latent) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const int32_t taps = binary_window(layer).taps();
  const int32_t words = words_for(in.channels);
  int32_t size = saturate_symmetric(rounding_shift(magnitude, 32 - width), width);
  if (size < 1) size = 1;
  int32_t index = 0;
  for (int32_t o = 0; o < program.tensor(layer.output).channels; ++o) {
    for (int32_t tap = 0; tap < taps; ++tap) {
      for (int32_t c = 0; c < in.channels; ++c, ++index) {
        const uint64_t word = *binary_weight_word(bits, o, tap * words + c / 64, taps * words);
        store_value(latent, index, width, ((word >> (c & 63)) & 1) != 0 ? size : -size);
      }
    }
  }
}

const char* binary_shape_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits != 1 || out.bits != 16 || out.zero_point != 0) return "a binary convolution must turn bits into 16-bit sums";
  if (const char* problem = window_check(binary_window(layer), in, out)) return problem;
  const int32_t pad_value = layer.attributes[kBinaryPadValue];
  if (pad_value < -1 || pad_value > 1) return "a binary convolution pads with neither -1, 0 nor +1";
  if (int64_t{binary_window(layer).taps()} * in.channels > kMaxBinaryTerms ||
      int64_t{binary_window(layer).taps()} * out.channels > kMaxBinaryTerms) {
    return "a binary convolution adds more than 32767 terms, beyond its 16-bit sums";
  }
  return nullptr;
}

const char* binary_convolution_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (const char* problem = binary_shape_check(program, layer)) return problem;
  if (static_cast<size_t>(layer.arrays[kBits].bytes) != binary_weight_words(program, layer) * sizeof(uint64_t)) {
    return "a binary convolution's weight bits do not fit its shape";
  }
  if (layer.parameters[kBinaryWeight] != kAbsent && program.parameter(layer.parameters[kBinaryWeight]).count != 1) {
    return "a binary convolution's weight parameter must be one magnitude";
  }
  const uint64_t* bits = program.array<uint64_t>(layer, kBits);
  const int32_t words = words_for(in.channels);
  const int32_t steps = binary_window(layer).taps() * words;
  const int32_t padded = (out.channels + 7) / 8 * 8;
  for (int32_t o = 0; o < padded; ++o) {
    for (int32_t step = 0; step < steps; ++step) {
      const uint64_t allowed = o < out.channels ? channel_mask(in.channels, step % words) : 0;
      if ((*binary_weight_word(bits, o, step, steps) & ~allowed) != 0) return "a binary convolution has bits where it has no channels";
    }
  }
  return nullptr;
}

size_t binary_convolution_scratch(const Extent& extent) {
  const size_t forward = binary_sums_scratch(extent);
  const size_t backward = binary_convolution_gradient_scratch(extent);
  return forward > backward ? forward : backward;
}

void binary_convolution_forward(const Context& context) {
  int16_t* z = context.output_values<int16_t>();
  const int32_t channels = context.output().channels;
  const auto store = [=](const BinarySums& block) {
    if (block.bits == 16) return;  // they stand in z already
    const int32_t* from = static_cast<const int32_t*>(block.sums);
    int16_t* to = z + static_cast<int64_t>(block.place) * channels + block.channel;
    for (int32_t p = 0; p < block.places; ++p, from += block.stride, to += channels) {
      for (int32_t c = 0; c < block.channels; ++c) to[c] = static_cast<int16_t>(from[c]);
    }
  };
  for_each_binary_sums(context, z, [&] { return store; });
}

}  // namespace everbit
