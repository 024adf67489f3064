// Constants of an affine, a set for each channel, as several families take them.
#pragma once

#include "draw.h"

namespace everbit::selftest {

constexpr int64_t kMaxOffset = int64_t{1} << 29;  // |B| of an affine

struct AffineConstants {
  int16_t* A;
  int32_t* B;
  uint8_t* s;
  size_t channels;

  AffineConstants(Room& room, size_t count)
      : A(room.take<int16_t>(count)), B(room.take<int32_t>(count)), s(room.take<uint8_t>(count)), channels(count) {}

  void write(Numbers& numbers) const {
    numbers.write(A, channels, INT16_MIN, INT16_MAX);
    numbers.write(B, channels, -kMaxOffset, kMaxOffset);
    for (size_t c = 0; c < channels; ++c) s[c] = static_cast<uint8_t>(numbers.random.next() % 30);
  }
};

}  // namespace everbit::selftest
