// Gradients of a binary convolution, by additions and subtractions only.
//
// Gradients of q_b <= 16 sum in int32: K for the input's (2^15 terms at most fit, checked), kPlacesAtOnce of the mini-batch for the
// weights', those sums in int64; of 32 bits in int64.
#include <cstring>
#include <type_traits>

#include "../bits.h"
#include "../kernels/sign_gemm/sign_gemm.h"
#include "../memory.h"
#include "../parallel.h"
#include "binary_convolution.h"
#include "binary_gradient_map.h"
#include "binary_weight_sums.h"
#include "layers.h"

namespace everbit {
namespace {

constexpr size_t kBackwardRows = 96;  // pixels a block of the input's gradient

template <typename G, typename Sum>
struct InputGradientScratch {
  int32_t rows;     // input pixels at once
  Sum* input_sums;  // batch x input elements: the gradient before it is quantized
  uint64_t* bits;   // weights, words x taps * C_out
  G* patches;       // threads x rows x taps * C_out
  Sum* sums;        // threads x rows x 64

  InputGradientScratch(Region& s, const Extent& extent) {
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const int32_t batch = extent.batch, taps = binary_window(extent.layer).taps();
    const int threads = extent.threads;
    const size_t length = static_cast<size_t>(taps) * static_cast<size_t>(out.channels);
    const size_t pixels = static_cast<size_t>(batch) * static_cast<size_t>(in.pixels());
    const size_t elements = pixels * static_cast<size_t>(in.channels);
    // Unpacked weights serve all rows, but the rows of a small layer shall not take more memory than the sums they make.
    const size_t affordable = elements * sizeof(Sum) / (length * sizeof(G)) + 1;
    const size_t useful = pixels < kBackwardRows ? pixels : kBackwardRows;
    rows = static_cast<int32_t>(affordable < useful ? affordable : useful);
    const size_t at_once = static_cast<size_t>(threads) * static_cast<size_t>(rows);
    input_sums = s.take<Sum>(elements);
    bits = s.take<uint64_t>(static_cast<size_t>(words_for(in.channels)) * length);
    patches = s.take<G>(at_once * length);
    sums = s.take<Sum>(at_once * 64);
  }
};

}  // namespace

size_t binary_convolution_gradient_scratch(const Extent& extent) {
  const TensorRecord& out = extent.program.tensor(extent.layer.output);
  Region input, map, weights;
  with_gradient_type(extent.widths.non_binary, [&](auto g, auto sum) {
    InputGradientScratch<decltype(g), decltype(sum)>(input, extent);
    const bool by_map = extent.processor.tiles && gradient_suits_map(extent.program, extent.layer, sizeof(g));
    if (by_map) GradientMapScratch(map, extent, sizeof(g));
    if (extent.widths.binary > 1) WeightGradientScratch<decltype(g), decltype(sum)>(weights, extent.threads, extent.batch, out);
  });
  const size_t most = input.used > map.used ? input.used : map.used;  // whichever is taken
  return most > weights.used ? most : weights.used;
}

namespace {

// dX: each input pixel gathers the gradients of the outputs that read it, tap by tap, and multiplies them by the weights of those taps.
template <typename G, typename Sum>
void input_gradient(const Context& context, const InputGradientScratch<G, Sum>& room, const G* g) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = binary_window(context.layer);
  const int32_t words = words_for(in.channels);
  const int32_t steps = window.taps() * words;
  const int32_t length = window.taps() * out.channels;
  const int32_t pixels = context.batch * in.pixels();
  const size_t channels = static_cast<size_t>(out.channels);

  parallel_for(context.threads, steps, 1, [&](int64_t from, int64_t to, int) {
    for (int32_t step = static_cast<int32_t>(from); step < to; ++step) {
      uint64_t* row = room.bits + step % words * length + step / words * out.channels;
      for (int32_t o = 0; o < out.channels; ++o) row[o] = *binary_weight_word(context.binary->bits, o, step, steps);
    }
  });
  const int32_t blocks = (pixels + room.rows - 1) / room.rows;
  parallel_for(context.threads, blocks, 1, [&](int64_t from_block, int64_t to_block, int thread) {
    G* patches = room.patches + static_cast<size_t>(thread) * static_cast<size_t>(room.rows) * static_cast<size_t>(length);
    Sum* sums = room.sums + thread * room.rows * 64;
    for (int32_t first = static_cast<int32_t>(from_block) * room.rows; first < to_block * room.rows && first < pixels;
         first += room.rows) {
      const int32_t rows = pixels - first < room.rows ? pixels - first : room.rows;
      Place place(first, in);
      for (int32_t r = 0; r < rows; ++r, place.advance(in)) {
        const int32_t image = place.image * out.pixels();
        G* patch = patches + static_cast<size_t>(r) * static_cast<size_t>(length);
        for_each_reader(window, out, place.row, place.column, [&](int32_t tap, int32_t reader) {
          G* to = patch + tap * out.channels;
          if (reader == kAbsent) {
            std::memset(to, 0, channels * sizeof(G));
          } else {
            std::memcpy(to, g + static_cast<size_t>(image + reader) * channels, channels * sizeof(G));
          }
        });
      }
      for (int32_t w = 0; w < words; ++w) {
        sign_gemm(patches, rows, length, room.bits + w * length, nullptr, sums);
        const int32_t count = in.channels - w * 64 < 64 ? in.channels - w * 64 : 64;
        for (int32_t r = 0; r < rows; ++r) {
          Sum* to = room.input_sums + static_cast<size_t>(first + r) * static_cast<size_t>(in.channels) + w * 64;
          std::memcpy(to, sums + r * 64, static_cast<size_t>(count) * sizeof(Sum));
        }
      }
    }
  });
}

// The rows of one tap lie far apart, where the processor does not look ahead by itself.
constexpr int32_t kRowsAhead = 12;

void prefetch_row(const Parameter& latent, int32_t first, int32_t count) {
  const uint8_t* row = static_cast<const uint8_t*>(latent.values) + stored_bytes(first, latent.width);
  for (size_t byte = 0; byte < stored_bytes(count, latent.width); byte += kAlignment) __builtin_prefetch(row + byte, 1);
}

// The channels a step can move: |dW| of every weight of one is at most the sum of its gradients' magnitudes, and where that much would
// round to no step at all, nothing of the channel changes. By chance (stochastic rounding) anything may. Returns how many they are.
template <typename G>
int32_t moving_channels(const Parameter& latent, const G* g, int32_t places, int32_t channels, Scale by, int32_t* moving) {
  const bool nearest = !latent.rounding.stochastic;
  int32_t count = 0;
  constexpr int32_t kSide = 64;
  for (int32_t first = 0; first < channels; first += kSide) {
    const int32_t number = channels - first < kSide ? channels - first : kSide;
    int64_t most[kSide] = {};
    for (int32_t p = 0; nearest && p < places; ++p) {
      const G* row = g + static_cast<int64_t>(p) * channels + first;
      for (int32_t o = 0; o < number; ++o) most[o] += row[o] < 0 ? -int64_t{row[o]} : int64_t{row[o]};
    }
    for (int32_t o = 0; o < number; ++o) {
      if (!nearest || scale(most[o], by) != 0) moving[count++] = first + o;
    }
  }
  return count;
}

// dW and the update.
template <typename G, typename Sum>
void update_weights(const Context& context, const WeightGradientScratch<G, Sum>& room, const G* g, int32_t exponent) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const int32_t taps = binary_window(context.layer).taps();
  const int32_t words = words_for(in.channels);
  Parameter& latent = *context.parameter(kBinaryWeight);
  const Scale step_size = step_of(context, latent);
  // Two weights of 4 bits share a byte, which must not be two threads'.
  const int threads = latent.width == 4 && in.channels % 2 != 0 ? 1 : context.threads;

  const Scale by = shifted(step_size, exponent - latent.range_exponent + latent.width - 1);
  const int32_t moving = moving_channels(latent, g, context.batch * out.pixels(), out.channels, by, room.moving);
  if (moving == 0) return;

  for_each_weight_sums(context, room, g, moving, threads, [&](int32_t step, const auto* sums) {
    const int32_t tap = step / words;
    const int32_t w = step % words;
    const int32_t count = in.channels - w * 64 < 64 ? in.channels - w * 64 : 64;
    const auto first_weight = [&](int32_t k) { return (room.moving[k] * taps + tap) * in.channels + w * 64; };
    for (int32_t k = 0; k < moving; ++k) {
      if (k + kRowsAhead < moving) prefetch_row(latent, first_weight(k + kRowsAhead), count);
      const uint64_t word = update_parameters(latent, first_weight(k), count, sums + k * 64, step_size, exponent);
      const uint64_t* at = binary_weight_word(context.binary->bits, room.moving[k], step, taps * words);
      context.binary->learned[at - context.binary->bits] = word;
    }
  });
  refresh_tap_sums(context.program, context.layer, *context.binary, context.threads);
}

// The sums of the input's gradient, in the scratch.
template <typename G>
auto* input_sums(const Context& context, const G* g) {
  using Sum = std::conditional_t<sizeof(G) == sizeof(int32_t), int64_t, int32_t>;
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  if constexpr (sizeof(Sum) == sizeof(int32_t)) {
    if (kTilesExist && sign_convolution_is_fast() && context.batch <= kMapImages &&
        gradient_suits_map(context.program, context.layer, sizeof(G))) {
      const GradientMapScratch room(scratch, extent_of(context), sizeof(G));
      input_gradient_by_map(context, room, g, sizeof(G));
      return room.input_sums;
    }
  }
  const InputGradientScratch<G, Sum> room(scratch, extent_of(context));
  input_gradient(context, room, g);
  return room.input_sums;
}

}  // namespace

const int32_t* binary_input_gradient(const Context& context, const int16_t* g) { return input_sums(context, g); }

void binary_convolution_backward(const Context& context) {
  const TensorRecord& out = context.output();
  const Gradient& gradient = context.output_gradient();
  with_gradient_type(context.widths.non_binary, [&](auto element, auto accumulator) {
    using G = decltype(element);
    using Sum = decltype(accumulator);
    const G* g = static_cast<const G*>(gradient.values);
    if (context.needs_input_gradient()) {
      write_input_gradient(context, 0, input_sums(context, g), gradient.exponent);
    }
    const Parameter* latent = context.parameter(kBinaryWeight);
    if (latent != nullptr && latent->values != nullptr && latent->trainable) {
      Region scratch{static_cast<uint8_t*>(context.scratch)};
      const WeightGradientScratch<G, Sum> room(scratch, context.threads, context.batch, out);
      update_weights(context, room, g, gradient.exponent);
    }
  });
}

}  // namespace everbit
