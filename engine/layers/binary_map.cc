// The input of a binary convolution as bytes with its border (binary_sums.h).
#include <cstring>

#include "binary_sums.h"

namespace everbit {

void fill_map(const Context& context, const SignMap& map, const uint64_t* image, int32_t count, int8_t* cells) {
  const TensorRecord& in = context.input();
  const int32_t pad_value = context.layer.attributes[kBinaryPadValue];
  const BinaryBorder border(in, pad_value);
  const int32_t left = map.window.left;
  const int32_t inside = in.width < map.width - left ? in.width : map.width - left;
  const auto fill = [&](int8_t* cell, int32_t number) {
    for (int32_t x = 0; x < number; ++x, cell += kCell) {
      if (pad_value != 0) {
        sign_cells(border.bits, in.channels, 1, map.plane, cell);
      } else {
        for (int32_t w = 0; w < map.words; ++w) std::memset(cell + w * map.plane, 0, kCell);
      }
    }
  };
  const int64_t grain = kElementGrain / (map.width * map.words);
  parallel_for(context.threads, int64_t{count} * map.height, grain, [&](int64_t first, int64_t last, int) {
    for (int64_t row = first; row < last; ++row) {
      const int32_t y = static_cast<int32_t>(row % map.height) - map.window.top;
      int8_t* to = cells + row * map.width * kCell;
      if (y < 0 || y >= in.height) {
        fill(to, map.width);
        continue;
      }
      const int64_t pixel = (row / map.height * in.height + y) * in.width;
      fill(to, left);
      sign_cells(image + pixel * map.words, in.channels, inside, map.plane, to + left * kCell);
      fill(to + (left + inside) * kCell, map.width - left - inside);
    }
  });
}

}  // namespace everbit
