// Convolution of +-1 activations with +-1 weights, on packed bits: the exact integer sum, |z| <= K <= 32767. Its gradients stand in
// binary_convolution_gradient.cc.
#include "binary_convolution.h"

#include "../bits.h"
#include "../kernels/xnor_gemm/xnor_gemm.h"
#include "../memory.h"
#include "../parallel.h"
#include "layers.h"

namespace everbit {
namespace {

constexpr int kBits = 0;  // array
constexpr int32_t kMaxTerms = 32767;
constexpr int32_t kForwardRows = 48;  // places a block of the product, at most 64

struct ForwardScratch {
  int32_t rows;       // output places at once
  uint64_t* patches;  // threads x rows x taps * words

  ForwardScratch(Region& s, int threads, int32_t places, int32_t steps)
      : rows(places < kForwardRows ? places : kForwardRows),
        patches(s.take<uint64_t>(static_cast<size_t>(threads) * static_cast<size_t>(rows) * static_cast<size_t>(steps))) {}
};

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

const char* binary_convolution_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits != 1 || out.bits != 16 || out.zero_point != 0) return "a binary convolution must turn bits into 16-bit sums";
  if (const char* problem = window_check(binary_window(layer), in, out)) return problem;
  const int32_t pad_value = layer.attributes[kBinaryPadValue];
  if (pad_value < -1 || pad_value > 1) return "a binary convolution pads with neither -1, 0 nor +1";
  if (int64_t{binary_window(layer).taps()} * in.channels > kMaxTerms ||
      int64_t{binary_window(layer).taps()} * out.channels > kMaxTerms) {
    return "a binary convolution adds more than 32767 terms, beyond its 16-bit sums";
  }
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
  const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  Region forward;
  ForwardScratch(forward, extent.threads, extent.batch * out.pixels(), binary_window(extent.layer).taps() * words_for(in.channels));
  const size_t backward = binary_convolution_gradient_scratch(extent);
  return forward.used > backward ? forward.used : backward;
}

namespace {

// The words under the window at one output place, tap by tap; `outside` stands for a pixel beyond the image. Whether there is none.
bool gather_patch(const Window& window, const TensorRecord& in, const uint64_t* image, int32_t words, int32_t row, int32_t column,
                  const uint64_t* outside, uint64_t* patch) {
  const int32_t left = column * window.stride - window.left;
  const bool whole_rows = left >= 0 && left + window.kernel_width <= in.width;
  bool whole = whole_rows;
  for (int32_t i = 0; i < window.kernel_height; ++i) {
    const int32_t y = row * window.stride + i - window.top;
    const bool row_inside = y >= 0 && y < in.height;
    if (whole_rows && row_inside) {  // the pixels of a row of the window lie side by side
      const uint64_t* from = image + (y * in.width + left) * words;
      for (int32_t w = 0; w < window.kernel_width * words; ++w) *patch++ = *from++;
      continue;
    }
    whole = false;
    for (int32_t x = left; x < left + window.kernel_width; ++x) {
      const uint64_t* from = row_inside && x >= 0 && x < in.width ? image + (y * in.width + x) * words : outside;
      for (int32_t w = 0; w < words; ++w) *patch++ = *from++;
    }
  }
  return whole;
}

}  // namespace

void binary_convolution_forward(const Context& context) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = binary_window(context.layer);
  const int32_t pad_value = context.layer.attributes[kBinaryPadValue];
  const int32_t words = words_for(in.channels);
  const int32_t steps = window.taps() * words;
  const BinaryWeights& weights = *context.binary;
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  const int32_t places = context.batch * out.pixels();
  const ForwardScratch room(scratch, context.threads, places, steps);
  uint64_t outside[kMaxTerms / 64 + 1];  // K holds at least one tap
  for (int32_t w = 0; w < words; ++w) outside[w] = pad_value == 1 ? channel_mask(in.channels, w) : 0;

  const uint64_t* x = context.input_values<uint64_t>();
  int16_t* z = context.output_values<int16_t>();
  const int32_t blocks = (places + room.rows - 1) / room.rows;
  parallel_for(context.threads, blocks, 1, [&](int64_t from_block, int64_t to_block, int thread) {
    uint64_t* patches = room.patches + static_cast<size_t>(thread) * static_cast<size_t>(room.rows * steps);
    for (int32_t first = static_cast<int32_t>(from_block) * room.rows; first < to_block * room.rows && first < places;
         first += room.rows) {
      const int32_t rows = places - first < room.rows ? places - first : room.rows;
      Place place(first, out);
      uint64_t borders = 0;  // a bit for each row: part of its window lies beyond the image
      for (int32_t r = 0; r < rows; ++r, place.advance(out)) {
        const uint64_t* image = x + static_cast<size_t>(place.image) * static_cast<size_t>(in.pixels() * words);
        const bool whole = gather_patch(window, in, image, words, place.row, place.column, outside, patches + r * steps);
        borders |= uint64_t{!whole} << r;
      }
      int16_t* block = z + static_cast<size_t>(first) * static_cast<size_t>(out.channels);
      xnor_gemm(patches, rows, steps, weights.bits, out.channels, window.taps() * in.channels, block);
      for (; pad_value == 0 && borders != 0; borders &= borders - 1) {
        const int32_t r = __builtin_ctzll(borders);
        const Place border(first + r, out);
        for_each_tap(window, in, border.row, border.column, [&](int32_t tap, int32_t pixel) {
          if (pixel != kAbsent) return;
          const int16_t* sums = weights.tap_sums + tap * out.channels;
          int16_t* row = block + r * out.channels;
          for (int32_t o = 0; o < out.channels; ++o) row[o] = static_cast<int16_t>(row[o] + sums[o]);
        });
      }
    }
  });
}

}  // namespace everbit
