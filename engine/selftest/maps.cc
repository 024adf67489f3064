// Products over a map of cells: sign_convolution, sign_gradient.
#include "../bits.h"
#include "../kernels/sign_convolution/sign_convolution.h"
#include "../kernels/sign_gradient/sign_gradient.h"
#include "draw.h"

namespace everbit::selftest {
namespace {

// The cells of taps lie as in a map seven cells wide, three taps to a row.
int32_t cell_of(int32_t tap) { return tap / 3 * 7 + tap % 3; }

// One more call of an Interlude.
void count_call(void* calls) { ++*static_cast<int32_t*>(calls); }

}  // namespace

// channels, blocks of eight columns (1 or 2), places, taps, 1 where every third cell is empty; fills of the signs and the weights.
void sign_convolution_vector(Draw& draw) {
  const int32_t channels = draw.parameters[0], blocks = draw.parameters[1], places = draw.parameters[2], taps = draw.parameters[3];
  const bool empty_cells = draw.parameters[4] != 0;
  const int32_t words = words_for(channels), steps = taps * words, pixels = places + cell_of(taps - 1);
  const int64_t plane = int64_t{pixels} * kCell;
  const int32_t whole = (places + kTileRows - 1) / kTileRows * kTileRows;  // cells behind the last place are read
  uint64_t* bits = draw.room.take<uint64_t>(static_cast<size_t>(pixels * words));
  int8_t* map = draw.room.take<int8_t>(static_cast<size_t>(words * plane + (whole - places) * kCell));
  uint64_t* weights = draw.room.take<uint64_t>(static_cast<size_t>(blocks * steps * 8));
  int8_t* panel = draw.room.take<int8_t>(static_cast<size_t>(steps) * kPanelStep);
  int64_t* offsets = draw.room.take<int64_t>(static_cast<size_t>(steps));
  int32_t* sums = draw.room.take<int32_t>(static_cast<size_t>(kMapRows * kPanelColumns));
  if (!draw.room.enough) return;
  for (int32_t i = 0; i < pixels * words; ++i) bits[i] = word_of(draw.first) & channel_mask(channels, i % words);
  Numbers rest = draw.rest();
  for (int32_t i = 0; i < blocks * steps * 8; ++i) weights[i] = word_of(rest) & channel_mask(channels, i / 8 % words);
  for (int32_t step = 0; step < steps; ++step) offsets[step] = step / taps * plane + int64_t{cell_of(step % taps)} * kCell;
  sign_cells(bits, channels, pixels, plane, map);
  for (int32_t cell = 0; empty_cells && cell < words * pixels; ++cell) {
    for (int32_t c = 0; cell % pixels % 3 == 0 && c < kCell; ++c) map[cell * kCell + c] = 0;
  }
  const SignColumns columns{weights, blocks == 2 ? weights + steps * 8 : nullptr, taps, words};
  for (int once = 0; once < 2; ++once) {
    int32_t calls = 0;
    const Interlude interlude{count_call, &calls, 3};
    sign_tiles_begin();
    if (once != 0) {
      sign_sums_once(map, offsets, columns, panel, places, sums, interlude);
    } else {
      sign_panel(columns, panel);
      sign_sums(map, offsets, steps, panel, places, sums, interlude);
    }
    sign_tiles_end();
    draw.digest.add(calls);
    for (int32_t p = 0; p < places; ++p) draw.digest.add(sums + p * kPanelColumns, static_cast<size_t>(blocks * 8));
  }
}

// bits of a gradient, channels of the output, words of the input's channels, taps, places; fills of the gradients and the weights.
void sign_gradient_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], channels = draw.parameters[1], words = draw.parameters[2], taps = draw.parameters[3];
  const int32_t places = draw.parameters[4], pixels = places + cell_of(taps - 1), planes = gradient_planes(bits);
  const SignGradientShape shape{taps, channels, words, planes, int64_t{pixels} * kCell};
  const size_t count = static_cast<size_t>(pixels) * static_cast<size_t>(channels);
  const int32_t weight_count = (channels + 7) / 8 * 8 * taps * words;
  int16_t* g = draw.room.take<int16_t>(count);
  // Cells behind the last place are read.
  int8_t* cells = draw.room.take<int8_t>(static_cast<size_t>(shape.blocks() * planes * shape.plane + (kGradientRows - places) * kCell));
  uint64_t* weights = draw.room.take<uint64_t>(static_cast<size_t>(weight_count));
  int8_t* panel = draw.room.take<int8_t>(static_cast<size_t>(shape.blocks() * taps) * kGradientVectors * kPanelStep);
  int64_t* offsets = draw.room.take<int64_t>(static_cast<size_t>(taps));
  int32_t* room = draw.room.take<int32_t>(static_cast<size_t>(2 * kGradientRows * kCell));
  int32_t* sums = draw.room.take<int32_t>(static_cast<size_t>(kGradientRows * kCell));
  if (!draw.room.enough) return;
  write_integers(draw.first, g, bits, count, true);
  Numbers rest = draw.rest();
  for (int32_t i = 0; i < weight_count; ++i) weights[i] = word_of(rest);
  for (int32_t tap = 0; tap < taps; ++tap) offsets[tap] = int64_t{cell_of(tap)} * kCell;
  gradient_cells(g, shape, pixels, cells);
  for (int32_t w = 0; w < words; ++w) {
    gradient_panel(weights, shape, w, panel);
    sign_tiles_begin();
    gradient_sums(cells, shape, offsets, panel, room, sums);
    sign_tiles_end();
    draw.digest.add(sums, static_cast<size_t>(places * kCell));
  }
}

}  // namespace everbit::selftest
