// Pieces of memory the caller owns, each aligned to 64 bytes: for vectors, and so that no two share a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace everbit {

constexpr size_t kAlignment = 64;

// More than a processor can address: what a plan that does not fit its size_t comes to.
constexpr size_t kUnaddressable = SIZE_MAX;

static inline size_t saturating_sum(size_t a, size_t b) { return a > kUnaddressable - b ? kUnaddressable : a + b; }

static inline size_t saturating_product(size_t a, size_t b) { return b != 0 && a > kUnaddressable / b ? kUnaddressable : a * b; }

static inline size_t aligned(size_t bytes) {
  return bytes > kUnaddressable - kAlignment ? kUnaddressable : (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Where element `index` of an array of 8, 16 or 32-bit numbers lies; nullptr stays nullptr.
inline const void* element_at(const void* values, int64_t index, int32_t bits) {
  return values == nullptr ? nullptr : static_cast<const uint8_t*>(values) + index * (bits / 8);
}

inline void* element_at(void* values, int64_t index, int32_t bits) {
  return values == nullptr ? nullptr : static_cast<uint8_t*>(values) + index * (bits / 8);
}

// Takes aligned pieces off a stretch of memory, one after another; with base nullptr it only counts, up to kUnaddressable.
struct Region {
  uint8_t* base = nullptr;
  size_t used = 0;

  template <typename T>
  T* take(size_t count) {
    T* piece = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used);
    used = saturating_sum(used, aligned(saturating_product(count, sizeof(T))));
    return piece;
  }
};

}  // namespace everbit
