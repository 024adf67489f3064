// Where blocks of memory lie whose lives are known: two blocks may share bytes when they never live at the same moment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace everbit {

constexpr size_t kAlignment = 64;

inline size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Takes aligned pieces off a stretch of memory, one after another; with base nullptr it only counts.
struct Region {
  uint8_t* base = nullptr;
  size_t used = 0;

  template <typename T>
  T* take(size_t count) {
    T* piece = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used);
    used += aligned(count * sizeof(T));
    return piece;
  }
};

struct Block {
  size_t bytes = 0;
  int32_t first = 0;  // moments of its life, both included
  int32_t last = 0;
  size_t offset = 0;  // the answer
  bool placed = false;
};

// Gives every block an aligned offset; returns the bytes of the whole. Greedy: the largest block first, each as low as it can lie.
size_t place_blocks(Block* blocks, size_t count);

}  // namespace everbit
