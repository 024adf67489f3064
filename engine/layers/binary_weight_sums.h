// The sums of the gradient of a binary convolution's weights, dW = sum over places of +-1 activations times gradients, for whoever uses
// them: the update of latent weights (binary_convolution_gradient.cc) or a trainer of its own numbers (binary_products.cc).
//
// Gradients of q_b <= 16 sum in int32 over kPlacesAtOnce places, those sums in int64; of 32 bits in int64.
#pragma once

#include "../bits.h"
#include "../kernels/sign_gemm/sign_gemm.h"
#include "../memory.h"
#include "../parallel.h"
#include "binary_convolution.h"

namespace everbit {

constexpr int32_t kPlacesAtOnce = 1 << 16;
static_assert(kPlacesAtOnce <= kSignGemmMaxLength, "sums over so many places fit int32");

// Places are taken in blocks of whole rows, no more than kPlacesAtOnce of them.
template <typename G, typename Sum>
struct WeightGradientScratch {
  int32_t rows;      // of the output, in a block
  int32_t blocks;
  int32_t* moving;   // the output channels whose weights may change
  G* columns;        // gradients by channel: of each block C_out x its places
  uint64_t* bits;    // threads x places of a block: the activations under one tap
  uint8_t* present;  // threads x places of a block
  Sum* sums;         // threads x C_out x 64
  int64_t* totals;   // threads x C_out x 64, over more than one block

  WeightGradientScratch(Region& s, int threads, int32_t batch, const TensorRecord& out) {
    const int32_t all = batch * out.height;
    const int32_t most = kPlacesAtOnce / out.width;
    rows = all < most ? all : most;
    blocks = (all + rows - 1) / rows;
    const size_t channels = static_cast<size_t>(out.channels);
    const size_t at_once = static_cast<size_t>(threads) * static_cast<size_t>(rows) * static_cast<size_t>(out.width);
    moving = s.take<int32_t>(channels);
    columns = s.take<G>(channels * static_cast<size_t>(batch) * static_cast<size_t>(out.pixels()));
    bits = s.take<uint64_t>(at_once);
    present = s.take<uint8_t>(at_once);
    sums = s.take<Sum>(static_cast<size_t>(threads) * channels * 64);
    totals = s.take<int64_t>(blocks > 1 ? static_cast<size_t>(threads) * channels * 64 : 0);
  }
};

// Gradients of some channels by channel instead of by place, in blocks that fit the first-level cache.
template <typename G>
void transpose(const G* g, int32_t places, int32_t channels, const int32_t* moving, int32_t count, int threads, G* columns) {
  constexpr int32_t kSide = 64;
  const int32_t blocks = (count + kSide - 1) / kSide;
  parallel_for(threads, blocks, 1, [&](int64_t from, int64_t to, int) {
    const int32_t last = to * kSide < count ? static_cast<int32_t>(to) * kSide : count;
    for (int32_t p = 0; p < places; p += kSide) {
      const int32_t last_place = places - p < kSide ? places : p + kSide;
      for (int32_t k = static_cast<int32_t>(from) * kSide; k < last; ++k) {
        G* column = columns + static_cast<size_t>(k) * static_cast<size_t>(places);
        for (int32_t i = p; i < last_place; ++i) column[i] = g[static_cast<int64_t>(i) * channels + moving[k]];
      }
    }
  });
}

// The activations under a tap for the places of some output rows: a word of each, and whether anything is there.
inline void gather_activations(const Window& window, const TensorRecord& in, const TensorRecord& out, int32_t tap, int32_t pad_value,
                        const uint64_t* x, int32_t words, int32_t first_row, int32_t rows, uint64_t* bits, uint8_t* present) {
  const int32_t down = tap / window.kernel_width - window.top;
  const int32_t right = tap % window.kernel_width - window.left;
  for (int32_t i = first_row; i < first_row + rows; ++i) {
    const int32_t y = i % out.height * window.stride + down;
    const bool row_inside = y >= 0 && y < in.height;
    const uint64_t* row = x + (static_cast<size_t>(i / out.height) * static_cast<size_t>(in.pixels()) +
                               static_cast<size_t>(row_inside ? y * in.width : 0)) * static_cast<size_t>(words);
    for (int32_t j = 0, column = right; j < out.width; ++j, column += window.stride) {
      const bool inside = row_inside && column >= 0 && column < in.width;
      *bits++ = inside ? row[column * words] : pad_value == 1 ? ~uint64_t{0} : 0;
      *present++ = inside || pad_value != 0;
    }
  }
}

// Calls use(step, sums) for each step (tap * words + word of input channels), on any thread: sums[k][64] of output channel room.moving[k],
// k < moving. Nothing larger than C_out x 64 sums a thread exists.
template <typename G, typename Sum, typename F>
void for_each_weight_sums(const Context& context, const WeightGradientScratch<G, Sum>& room, const G* g, int32_t moving, int threads,
                          F&& use) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = binary_window(context.layer);
  const int32_t pad_value = context.layer.attributes[kBinaryPadValue];
  const int32_t words = words_for(in.channels);
  const uint64_t* x = context.input_values<uint64_t>();
  const int32_t block_places = room.rows * out.width;
  const size_t sum_count = static_cast<size_t>(moving) * 64;
  const auto places_of = [&](int32_t block) {
    const int32_t left = context.batch * out.pixels() - block * block_places;
    return left < block_places ? left : block_places;
  };
  const auto columns_of = [&](int32_t block) {
    return room.columns + static_cast<size_t>(block) * static_cast<size_t>(block_places) * static_cast<size_t>(moving);
  };
  for (int32_t block = 0; block < room.blocks; ++block) {
    const G* from = g + static_cast<size_t>(block) * static_cast<size_t>(block_places) * static_cast<size_t>(out.channels);
    transpose(from, places_of(block), out.channels, room.moving, moving, context.threads, columns_of(block));
  }
  parallel_for(threads, window.taps() * words, 1, [&](int64_t from, int64_t to, int thread) {
    uint64_t* bits = room.bits + static_cast<size_t>(thread) * static_cast<size_t>(block_places);
    uint8_t* present = room.present + static_cast<size_t>(thread) * static_cast<size_t>(block_places);
    Sum* sums = room.sums + static_cast<size_t>(thread) * sum_count;
    int64_t* totals = room.totals + static_cast<size_t>(thread) * sum_count;
    for (int32_t step = static_cast<int32_t>(from); step < to; ++step) {
      for (size_t i = 0; room.blocks > 1 && i < sum_count; ++i) totals[i] = 0;
      for (int32_t block = 0; block < room.blocks; ++block) {
        const int32_t places = places_of(block);
        gather_activations(window, in, out, step / words, pad_value, x + step % words, words, block * room.rows, places / out.width, bits,
                           present);
        sign_gemm(columns_of(block), moving, places, bits, present, sums);
        for (size_t i = 0; room.blocks > 1 && i < sum_count; ++i) totals[i] += sums[i];
      }
      if (room.blocks > 1) {
        use(step, static_cast<const int64_t*>(totals));
      } else {
        use(step, static_cast<const Sum*>(sums));
      }
    }
  });
}

}  // namespace everbit
