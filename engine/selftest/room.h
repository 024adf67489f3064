// The selftest's memory: one stretch, used again by every vector, and the numbers that fill it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../memory.h"
#include "../random.h"

namespace everbit::selftest {

// Takes pieces as long as they fit; a vector that needs more is not run.
struct Room {
  Region region;
  size_t bytes;
  bool enough = true;

  template <typename T>
  T* take(size_t count) {
    T* piece = region.take<T>(count);
    enough = enough && region.used <= bytes;
    return piece;
  }
};

enum class Fill : int32_t {
  kRandom,
  kLowest,
  kHighest,
  kEnds,  // the lowest or the highest, at random
};

// Numbers in [low, high]. Each takes one draw, whatever the fill.
struct Numbers {
  Random random;
  Fill fill;

  int64_t next(int64_t low, int64_t high) {
    const uint64_t word = random.next();
    switch (fill) {
      case Fill::kLowest: return low;
      case Fill::kHighest: return high;
      case Fill::kEnds: return word % 2 == 0 ? low : high;
      default: return low + static_cast<int64_t>(word % (static_cast<uint64_t>(high - low) + 1));
    }
  }

  template <typename T>
  void write(T* values, size_t count, int64_t low, int64_t high) {
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(next(low, high));
  }

  // The most and the least of a number of so many bits.
  static constexpr int64_t top(int bits) { return (int64_t{1} << (bits - 1)) - 1; }
  static constexpr int64_t bottom(int bits) { return -top(bits) - 1; }
};

}  // namespace everbit::selftest
