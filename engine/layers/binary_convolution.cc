// Convolution of +-1 activations with +-1 weights, on packed bits; its gradients by additions and subtractions only.
//
// The output is the exact integer sum, |z| <= K <= 32767. Gradients of q_b <= 16 sum in int32: K for the input's (2^15 terms at most
// fit), batch * places for the weights' (65538 at most), both checked; of 32 bits in int64.
#include <cstring>

#include "../bits.h"
#include "../kernels/gradient/gradient.h"
#include "../kernels/sign_gemm/sign_gemm.h"
#include "../kernels/xnor_gemm/xnor_gemm.h"
#include "../memory.h"
#include "binary_convolution.h"
#include "layers.h"
#include "window.h"

namespace everbit {
namespace {

constexpr int kPadValue = 4;       // attribute
constexpr int kBits = 0;           // array
constexpr int kWeight = 0;         // parameter
constexpr int32_t kMaxTerms = 32767;
constexpr int32_t kForwardRows = 16;   // places a block of the forward product
constexpr int32_t kBackwardRows = 48;  // places a block of the input's gradient: unpacked weights serve all of them

Window window_of(const LayerRecord& layer) {
  return {layer.attributes[0], layer.attributes[1], layer.attributes[2], layer.attributes[3]};
}

struct ForwardScratch {
  uint64_t* patches;  // kForwardRows x taps x words

  ForwardScratch(Region& s, int32_t taps, int32_t words)
      : patches(s.take<uint64_t>(static_cast<size_t>(kForwardRows) * static_cast<size_t>(taps) * static_cast<size_t>(words))) {}
};

template <typename G, typename Sum>
struct BackwardScratch {
  size_t places;      // batch x output places
  G* columns;         // weights' gradient: gradients by channel, C_out x places
  G* patches;         // input's gradient: kBackwardRows x taps * C_out
  uint64_t* bits;     // the +-1 factors of one product: places, or taps * C_out
  uint8_t* present;   // places
  Sum* sums;          // one product: C_out x 64, or kBackwardRows x 64
  Sum* input_sums;    // gradient of the input before it is quantized

  BackwardScratch(Region& s, int32_t batch, const TensorRecord& in, const TensorRecord& out, int32_t taps)
      : places(static_cast<size_t>(batch) * static_cast<size_t>(out.pixels())) {
    const size_t channels = static_cast<size_t>(out.channels);
    const size_t row = static_cast<size_t>(taps) * channels;
    const size_t rows = channels > kBackwardRows ? channels : kBackwardRows;
    columns = s.take<G>(places * channels);
    patches = s.take<G>(kBackwardRows * row);
    bits = s.take<uint64_t>(row > places ? row : places);
    present = s.take<uint8_t>(places);
    sums = s.take<Sum>(rows * 64);
    input_sums = s.take<Sum>(static_cast<size_t>(batch) * static_cast<size_t>(in.elements()));
  }
};

// sign_gemm takes 16 or 32-bit gradients; 8-bit ones are widened as they are gathered.
template <typename F>
void with_product_type(int q_b, F&& f) {
  if (q_b == 32) {
    f(int32_t{}, int64_t{});
  } else {
    f(int16_t{}, int32_t{});
  }
}

const uint64_t* weight_word(const uint64_t* bits, int32_t channel, int32_t step, int32_t steps) {
  return bits + (static_cast<size_t>(channel / 8) * static_cast<size_t>(steps) + static_cast<size_t>(step)) * 8 +
         static_cast<size_t>(channel % 8);
}

}  // namespace

size_t binary_weight_words(const Program& program, const LayerRecord& layer) {
  const size_t steps = static_cast<size_t>(window_of(layer).taps()) *
                       static_cast<size_t>(words_for(program.tensor(layer.inputs[0]).channels));
  return static_cast<size_t>(words_for(program.tensor(layer.output).channels * 8)) * steps * 8;
}

int32_t binary_weight_count(const Program& program, const LayerRecord& layer) {
  return window_of(layer).taps() * program.tensor(layer.inputs[0]).channels * program.tensor(layer.output).channels;
}

int32_t binary_tap_sums(const Program& program, const LayerRecord& layer) {
  return window_of(layer).taps() * program.tensor(layer.output).channels;
}

void refresh_tap_sums(const Program& program, const LayerRecord& layer, const BinaryWeights& weights) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const int32_t taps = window_of(layer).taps();
  const int32_t words = words_for(in.channels);
  for (int32_t o = 0; o < program.tensor(layer.output).channels; ++o) {
    for (int32_t tap = 0; tap < taps; ++tap) {
      int32_t ones = 0;
      for (int32_t w = 0; w < words; ++w) ones += popcount(*weight_word(weights.bits, o, tap * words + w, taps * words));
      weights.tap_sums[o * taps + tap] = static_cast<int16_t>(2 * ones - in.channels);
    }
  }
}

void initialise_latent_weights(const Program& program, const LayerRecord& layer, const uint64_t* bits, int32_t magnitude, int width,
                               void* latent) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const int32_t taps = window_of(layer).taps();
  const int32_t words = words_for(in.channels);
  int32_t size = saturate_symmetric(rounding_shift(magnitude, 32 - width), width);
  if (size < 1) size = 1;
  int32_t index = 0;
  for (int32_t o = 0; o < program.tensor(layer.output).channels; ++o) {
    for (int32_t tap = 0; tap < taps; ++tap) {
      for (int32_t c = 0; c < in.channels; ++c, ++index) {
        const uint64_t word = *weight_word(bits, o, tap * words + c / 64, taps * words);
        store_value(latent, index, width, ((word >> (c & 63)) & 1) != 0 ? size : -size);
      }
    }
  }
}

const char* binary_convolution_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits != 1 || out.bits != 16 || out.zero_point != 0) return "a binary convolution must turn bits into 16-bit sums";
  if (const char* problem = window_check(window_of(layer), in, out)) return problem;
  const int32_t pad_value = layer.attributes[kPadValue];
  if (pad_value != 0 && pad_value != 1) return "a binary convolution pads with neither 0 nor +1";
  if (int64_t{window_of(layer).taps()} * in.channels > kMaxTerms ||
      int64_t{window_of(layer).taps()} * out.channels > kMaxTerms) {
    return "a binary convolution adds more than 32767 terms, beyond its 16-bit sums";
  }
  if (static_cast<size_t>(layer.arrays[kBits].bytes) != binary_weight_words(program, layer) * sizeof(uint64_t)) {
    return "a binary convolution's weight bits do not fit its shape";
  }
  if (layer.parameters[kWeight] != kAbsent && program.parameter(layer.parameters[kWeight]).count != 1) {
    return "a binary convolution's weight parameter must be one magnitude";
  }
  const uint64_t* bits = program.array<uint64_t>(layer, kBits);
  const int32_t words = words_for(in.channels);
  const int32_t steps = window_of(layer).taps() * words;
  const int32_t padded = (out.channels + 7) / 8 * 8;
  for (int32_t o = 0; o < padded; ++o) {
    for (int32_t step = 0; step < steps; ++step) {
      const uint64_t allowed = o < out.channels ? channel_mask(in.channels, step % words) : 0;
      if ((*weight_word(bits, o, step, steps) & ~allowed) != 0) return "a binary convolution has bits where it has no channels";
    }
  }
  return nullptr;
}

size_t binary_convolution_scratch(const Extent& extent) {
  const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  const int32_t taps = window_of(extent.layer).taps();
  Region forward, backward;
  ForwardScratch(forward, taps, words_for(in.channels));
  with_product_type(extent.widths.non_binary, [&](auto g, auto sum) {
    BackwardScratch<decltype(g), decltype(sum)>(backward, extent.batch, in, out, taps);
  });
  return forward.used > backward.used ? forward.used : backward.used;
}

void binary_convolution_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = window_of(context.layer);
  const bool pad_zero = context.layer.attributes[kPadValue] == 0;
  const int32_t words = words_for(in.channels);
  const int32_t steps = window.taps() * words;
  const BinaryWeights& weights = *context.binary;
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  const ForwardScratch room(scratch, window.taps(), words);

  const uint64_t* x = context.input_values<uint64_t>();
  int16_t* z = context.output_values<int16_t>();
  const int32_t places = context.batch * out.pixels();
  for (int32_t first = 0; first < places; first += kForwardRows) {
    const int32_t rows = places - first < kForwardRows ? places - first : kForwardRows;
    for (int32_t r = 0; r < rows; ++r) {
      const uint64_t* image = x + static_cast<size_t>((first + r) / out.pixels()) * static_cast<size_t>(in.pixels() * words);
      const int32_t place = (first + r) % out.pixels();
      for_each_tap(window, in, place / out.width, place % out.width, [&](int32_t tap, int32_t pixel) {
        uint64_t* patch = room.patches + r * steps + tap * words;
        for (int32_t w = 0; w < words; ++w) {
          patch[w] = pixel != kAbsent ? image[pixel * words + w] : pad_zero ? 0 : channel_mask(in.channels, w);
        }
      });
    }
    int16_t* block = z + static_cast<size_t>(first) * static_cast<size_t>(out.channels);
    xnor_gemm(room.patches, rows, steps, weights.bits, out.channels, window.taps() * in.channels, block);
    if (!pad_zero || window.padding == 0) continue;
    for (int32_t r = 0; r < rows; ++r) {
      const int32_t place = (first + r) % out.pixels();
      for_each_tap(window, in, place / out.width, place % out.width, [&](int32_t tap, int32_t pixel) {
        if (pixel != kAbsent) return;
        const int16_t* sums = weights.tap_sums + tap;
        int16_t* row = block + r * out.channels;
        for (int32_t o = 0; o < out.channels; ++o) row[o] = static_cast<int16_t>(row[o] + sums[o * window.taps()]);
      });
    }
  }
}

namespace {

// dX: each input pixel gathers the gradients of the outputs that read it, tap by tap, and multiplies them by the weights of those taps.
template <typename G, typename Sum, typename Element>
void input_gradient(const Context& context, const BackwardScratch<G, Sum>& room, const Element* g) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = window_of(context.layer);
  const int32_t words = words_for(in.channels);
  const int32_t steps = window.taps() * words;
  const int32_t length = window.taps() * out.channels;
  const int32_t pixels = context.batch * in.pixels();
  for (int32_t first = 0; first < pixels; first += kBackwardRows) {
    const int32_t rows = pixels - first < kBackwardRows ? pixels - first : kBackwardRows;
    for (int32_t r = 0; r < rows; ++r) {
      const int32_t image = (first + r) / in.pixels() * out.pixels();
      const int32_t place = (first + r) % in.pixels();
      for_each_reader(window, out, place / in.width, place % in.width, [&](int32_t tap, int32_t reader) {
        G* patch = room.patches + r * length + tap * out.channels;
        if (reader == kAbsent) {
          for (int32_t o = 0; o < out.channels; ++o) patch[o] = 0;
          return;
        }
        const Element* from = g + static_cast<size_t>(image + reader) * static_cast<size_t>(out.channels);
        for (int32_t o = 0; o < out.channels; ++o) patch[o] = static_cast<G>(from[o]);
      });
    }
    for (int32_t w = 0; w < words; ++w) {
      for (int32_t tap = 0; tap < window.taps(); ++tap) {
        for (int32_t o = 0; o < out.channels; ++o) {
          room.bits[tap * out.channels + o] = *weight_word(context.binary->bits, o, tap * words + w, steps);
        }
      }
      sign_gemm(room.patches, rows, length, room.bits, nullptr, room.sums);
      const int32_t count = in.channels - w * 64 < 64 ? in.channels - w * 64 : 64;
      for (int32_t r = 0; r < rows; ++r) {
        Sum* to = room.input_sums + static_cast<size_t>(first + r) * static_cast<size_t>(in.channels) + w * 64;
        for (int32_t c = 0; c < count; ++c) to[c] = room.sums[r * 64 + c];
      }
    }
  }
}

// Updates `count` latent weights in a row; returns their bits.
template <typename Sum>
uint64_t update_row(Parameter& latent, int32_t first, int32_t count, const Sum* sums, Scale step, int32_t exponent) {
  if constexpr (sizeof(Sum) == sizeof(int32_t)) {
    if (latent.width >= 8) {
      uint8_t* weights = static_cast<uint8_t*>(latent.values) + static_cast<size_t>(first) * static_cast<size_t>(latent.width / 8);
      return update_loop({weights, latent.width, sums, count, shifted(step, exponent + latent.width - 1)});
    }
  }
  uint64_t word = 0;
  for (int32_t c = 0; c < count; ++c) {
    update_parameter(latent, first + c, sums[c], step, exponent);
    word |= static_cast<uint64_t>(latent.get(first + c) >= 0) << c;
  }
  return word;
}

// dW and the update, 64 input channels of one tap at a time: nothing larger than C_out x 64 sums exists.
template <typename G, typename Sum, typename Element>
void update_weights(const Context& context, const BackwardScratch<G, Sum>& room, const Element* g, int32_t exponent) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = window_of(context.layer);
  const bool pad_zero = context.layer.attributes[kPadValue] == 0;
  const int32_t words = words_for(in.channels);
  const int32_t steps = window.taps() * words;
  const int32_t places = static_cast<int32_t>(room.places);
  Parameter& latent = *context.parameter(kWeight);
  const Scale step = step_of(context, latent);
  const uint64_t* x = context.input_values<uint64_t>();

  for (int32_t p = 0; p < places; ++p) {
    for (int32_t o = 0; o < out.channels; ++o) {
      room.columns[static_cast<size_t>(o) * room.places + static_cast<size_t>(p)] = static_cast<G>(g[p * out.channels + o]);
    }
  }
  for (int32_t tap = 0; tap < window.taps(); ++tap) {
    for (int32_t w = 0; w < words; ++w) {
      for (int32_t p = 0; p < places; ++p) {
        const int32_t place = p % out.pixels();
        const int32_t row = place / out.width * window.stride + tap / window.kernel_width - window.padding;
        const int32_t column = place % out.width * window.stride + tap % window.kernel_width - window.padding;
        const bool inside = row >= 0 && row < in.height && column >= 0 && column < in.width;
        const size_t pixel = static_cast<size_t>(p / out.pixels() * in.pixels() + row * in.width + column);
        room.bits[p] = inside ? x[pixel * static_cast<size_t>(words) + static_cast<size_t>(w)] : ~uint64_t{0};
        room.present[p] = inside || !pad_zero;
      }
      sign_gemm(room.columns, out.channels, places, room.bits, room.present, room.sums);
      const int32_t count = in.channels - w * 64 < 64 ? in.channels - w * 64 : 64;
      for (int32_t o = 0; o < out.channels; ++o) {
        const int32_t first = (o * window.taps() + tap) * in.channels + w * 64;
        const uint64_t word = update_row(latent, first, count, room.sums + o * 64, step, exponent);
        context.binary->learned[weight_word(context.binary->bits, o, tap * words + w, steps) - context.binary->bits] = word;
      }
    }
  }
  refresh_tap_sums(context.program, context.layer, *context.binary);
}

}  // namespace

void binary_convolution_backward(const Context& context) {
  const TensorRecord& in = context.input();
  const Gradient& gradient = context.output_gradient();
  const int q_b = context.widths.non_binary;
  with_product_type(q_b, [&](auto product, auto sum) {
    Region scratch{static_cast<uint8_t*>(context.scratch)};
    const BackwardScratch<decltype(product), decltype(sum)> room(scratch, context.batch, in, context.output(),
                                                                 window_of(context.layer).taps());
    with_gradient_type(q_b, [&](auto element, auto) {
      const auto* g = static_cast<const decltype(element)*>(gradient.values);
      if (context.needs_input_gradient()) {
        input_gradient(context, room, g);
        write_gradient(context.gradients[context.layer.inputs[0]], room.input_sums,
                       static_cast<size_t>(context.batch) * static_cast<size_t>(in.elements()), gradient.exponent, q_b);
      }
      const Parameter* latent = context.parameter(kWeight);
      if (latent != nullptr && latent->values != nullptr && latent->trainable) update_weights(context, room, g, gradient.exponent);
    });
  });
}

}  // namespace everbit
