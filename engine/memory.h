// Pieces of memory the caller owns, each aligned to 64 bytes: for vectors, and so that no two share a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace everbit {

constexpr size_t kAlignment = 64;

// More than a processor can address: what a plan that does not fit its size_t comes to.
constexpr size_t kUnaddressable = SIZE_MAX;

static inline size_t saturating_sum(size_t a, size_t b) { return a > kUnaddressable - b ? kUnaddressable : a + b; }

static inline size_t saturating_product(size_t a, size_t b) { return b != 0 && a > kUnaddressable / b ? kUnaddressable : a * b; }

static inline size_t aligned(size_t bytes) {
  return bytes > kUnaddressable - kAlignment ? kUnaddressable : (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The address sanitizer sees one allocation only, the caller's. So under it pieces lie a red zone apart, and whoever touches what is
// forbidden is stopped on the spot.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kRedZone = kAlignment;
inline void forbid(const void* start, size_t bytes) { ASAN_POISON_MEMORY_REGION(start, bytes); }
inline void allow(const void* start, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(start, bytes); }
#else
constexpr size_t kRedZone = 0;
inline void forbid(const void*, size_t) {}
inline void allow(const void*, size_t) {}
#endif

// Where element `index` of an array of 8, 16 or 32-bit numbers lies; nullptr stays nullptr.
inline const void* element_at(const void* values, int64_t index, int32_t bits) {
  return values == nullptr ? nullptr : static_cast<const uint8_t*>(values) + index * (bits / 8);
}

inline void* element_at(void* values, int64_t index, int32_t bits) {
  return values == nullptr ? nullptr : static_cast<uint8_t*>(values) + index * (bits / 8);
}

// How a type lies where addresses have 32 bits: a type of the same size there. One that holds addresses says so (parameter.h, layer.h).
template <typename T>
struct With32BitAddresses {
  using Type = T;
};
template <typename T>
struct With32BitAddresses<T*> {
  using Type = uint32_t;
};

// Bytes of a type on a processor with addresses of 4 bytes, or of as many as here.
template <typename T>
constexpr size_t size_on(size_t address_bytes) {
  return address_bytes == sizeof(void*) ? sizeof(T) : sizeof(typename With32BitAddresses<T>::Type);
}

// Takes aligned pieces off a stretch of memory, one after another; with base nullptr it only counts, up to kUnaddressable.
struct Region {
  uint8_t* base = nullptr;
  size_t used = 0;
  size_t red_zone = kRedZone;  // behind each piece; 0 where others read the stretch as a whole
  size_t address_bytes = sizeof(void*);  // of the processor it is counted for; another than this one's only with base nullptr

  template <typename T>
  T* take(size_t count) {
    const size_t bytes = saturating_product(count, size_on<T>(address_bytes));
    const size_t next = saturating_sum(saturating_sum(used, aligned(bytes)), red_zone);
    uint8_t* piece = base == nullptr ? nullptr : base + used;
    if (piece != nullptr && red_zone != 0) {
      forbid(piece, next - used);
      allow(piece, bytes);
    }
    used = next;
    return reinterpret_cast<T*>(piece);
  }
};

}  // namespace everbit
