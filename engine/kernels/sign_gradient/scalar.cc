#include "../../bits.h"
#include "sign_gradient.h"

namespace everbit {
namespace {

// Where the number of row `k` (of 64) and column `n` (of 64) stands in the piece of a panel for one block and tap.
int32_t panel_place(int32_t k, int32_t n) {
  return n / kPanelColumns * kPanelStep + k / 4 * kCell + n % kPanelColumns * 4 + k % 4;
}

}  // namespace

void gradient_cells_scalar(const void* g, const SignGradientShape& shape, int32_t places, int8_t* cells) {
  const uint8_t* bytes = static_cast<const uint8_t*>(g);  // little-endian numbers: the low byte first
  for (int32_t p = 0; p < places; ++p) {
    for (int32_t c = 0; c < shape.blocks() * kCell; ++c) {
      for (int32_t plane = 0; plane < shape.planes; ++plane) {
        int8_t* cell = cells + (c / kCell * shape.planes + plane) * shape.plane + int64_t{p} * kCell;
        const int64_t at = (int64_t{p} * shape.channels + c) * shape.planes + plane;
        cell[c % kCell] = c < shape.channels ? static_cast<int8_t>(bytes[at]) : int8_t{0};
      }
    }
  }
}

void gradient_panel_scalar(const uint64_t* bits, const SignGradientShape& shape, int32_t w, int8_t* panel) {
  for (int32_t block = 0; block < shape.blocks(); ++block) {
    for (int32_t tap = 0; tap < shape.taps; ++tap, panel += kGradientVectors * kPanelStep) {
      for (int32_t k = 0; k < kCell; ++k) {
        const int32_t o = block * kCell + k;
        const int64_t step = int64_t{tap} * shape.words + w;
        const uint64_t word = o < shape.channels ? bits[(o / 8 * int64_t{shape.taps} * shape.words + step) * 8 + o % 8] : 0;
        for (int32_t n = 0; n < kCell; ++n) panel[panel_place(k, n)] = ((word >> n) & 1) != 0 ? 1 : -1;
      }
    }
  }
}

void gradient_sums_scalar(const int8_t* cells, const SignGradientShape& shape, const int64_t* offsets, const int8_t* panel, int32_t*,
                          int32_t* sums) {
  for (int32_t p = 0; p < kGradientRows; ++p) {
    for (int32_t n = 0; n < kCell; ++n) {
      int32_t sum = 0;
      for (int32_t step = 0; step < shape.blocks() * shape.taps; ++step) {
        const int8_t* by = panel + int64_t{step} * kGradientVectors * kPanelStep;
        const int8_t* cell = cells + step / shape.taps * shape.planes * shape.plane + offsets[step % shape.taps] + int64_t{p} * kCell;
        for (int32_t k = 0; k < kCell; ++k) {
          const int32_t high = cell[(shape.planes - 1) * shape.plane + k];
          const int32_t value = shape.planes == 2 ? 256 * high + static_cast<uint8_t>(cell[k]) : high;
          sum += value * by[panel_place(k, n)];
        }
      }
      sums[p * kCell + n] = sum;
    }
  }
}

}  // namespace everbit
