#include "../../bits.h"
#include "sign_convolution.h"

namespace everbit {

void sign_cells_scalar(const uint64_t* bits, int32_t channels, int32_t pixels, int64_t plane, int8_t* cells) {
  for (int32_t p = 0; p < pixels; ++p) {
    for (int32_t w = 0; w < words_for(channels); ++w) {
      int8_t* cell = cells + w * plane + int64_t{p} * kCell;
      const uint64_t word = *bits++;
      for (int32_t c = 0; c < kCell; ++c) cell[c] = w * 64 + c >= channels ? 0 : ((word >> c) & 1) != 0 ? 1 : -1;
    }
  }
}

void sign_panel_scalar(const SignColumns& columns, int8_t* panel) {
  for (int32_t step = 0; step < columns.steps(); ++step) {
    const int32_t from = step % columns.taps * columns.words + step / columns.taps;
    for (int32_t n = 0; n < kPanelColumns; ++n) {
      const uint64_t* block = n < 8 ? columns.first : columns.second;
      const uint64_t word = block == nullptr ? 0 : block[from * 8 + n % 8];
      for (int32_t c = 0; c < kCell; ++c) panel[(c / 4) * kCell + n * 4 + c % 4] = ((word >> c) & 1) != 0 ? 1 : -1;
    }
    panel += kPanelStep;
  }
}

void sign_sums_scalar(const int8_t* map, const int64_t* offsets, int32_t steps, const int8_t* panel, int32_t places, int32_t* sums,
                      const Interlude& interlude) {
  InterludeCounter counter{interlude};
  for (int32_t step = 0; step < steps; ++step) counter.step();
  for (int32_t p = 0; p < places; ++p) {
    for (int32_t n = 0; n < kPanelColumns; ++n) {
      int32_t sum = 0;
      for (int32_t step = 0; step < steps; ++step) {
        const int8_t* cell = map + offsets[step] + int64_t{p} * kCell;
        const int8_t* by = panel + int64_t{step} * kPanelStep + n * 4;
        for (int32_t c = 0; c < kCell; ++c) sum += cell[c] * by[(c / 4) * kCell + c % 4];
      }
      sums[p * kPanelColumns + n] = sum;
    }
  }
}

}  // namespace everbit
