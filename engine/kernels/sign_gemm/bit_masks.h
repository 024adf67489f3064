// Bits to masks, for the AVX-512 and AMX kernels, included by their files alone: vpermb brings the byte that holds its bit to every place,
// vptestm turns it into a mask.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace everbit {
namespace {

constexpr int kVectors = 4;  // 64 columns, 16 to a vector

template <typename T>
constexpr int32_t kGroup = 4 / static_cast<int32_t>(sizeof(T));  // rows of B that stand side by side in 32 bits

// For column n = 16 v + lane and row k of a group: the byte of the group's words (8 bytes each) that holds bit n, and the bit's place in it.
struct Places {
  alignas(64) uint8_t byte[kVectors][64];
  alignas(64) uint8_t bit[64];
};

template <typename T>
constexpr Places places() {
  Places p{};
  for (int i = 0; i < 64; ++i) {
    const int lane = i / 4;
    const int k = i % 4 / static_cast<int>(sizeof(T));
    for (int v = 0; v < kVectors; ++v) p.byte[v][i] = static_cast<uint8_t>(8 * k + 2 * v + lane / 8);
    p.bit[i] = i % static_cast<int>(sizeof(T)) == 0 ? static_cast<uint8_t>(1 << (lane % 8)) : uint8_t{0};
  }
  return p;
}

// A bit for each of a group's rows that is present, from bytes of 0 or 1, repeated for all 16 lanes.
template <typename T>
inline uint64_t present_mask(const uint8_t* present) {
  uint32_t bytes = 0;
  std::memcpy(&bytes, present, kGroup<T>);
  return _pext_u32(bytes, 0x01010101u) * (kGroup<T> == 4 ? 0x1111111111111111u : 0x55555555u);
}

// Calls f(group, v, plus, present) for every vector of every group of `count` words: masks of its numbers of type T, by column and row,
// of those whose bit is set and of those that are present.
template <typename T, typename F>
inline void for_each_vector(const uint64_t* bits, const uint8_t* present, int32_t count, F&& f) {
  static constexpr Places kPlaces = places<T>();
  const __m512i bit = _mm512_load_si512(kPlaces.bit);
  const auto unpack = [&](int32_t group, const uint64_t* words, uint64_t there) {
    const __m512i all = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)));
    for (int v = 0; v < kVectors; ++v) {
      const __m512i bytes = _mm512_permutexvar_epi8(_mm512_load_si512(kPlaces.byte[v]), all);
      if constexpr (sizeof(T) == 1) {
        f(group, v, uint64_t{_mm512_test_epi8_mask(bytes, bit)}, there);
      } else {
        f(group, v, uint64_t{_mm512_test_epi16_mask(bytes, bit)}, there);
      }
    }
  };
  const int32_t whole = count / 4 * 4;  // four words are read at once
  for (int32_t i = 0; i < whole; i += kGroup<T>) {
    const uint64_t there = present == nullptr ? ~uint64_t{0} : present_mask<T>(present + i);
    uint64_t words[4] = {};
    std::memcpy(words, bits + i, kGroup<T> * sizeof(uint64_t));
    unpack(i / kGroup<T>, words, there);
  }
  uint64_t words[8] = {};
  uint8_t left[4] = {};
  for (int32_t k = 0; k < count - whole; ++k) {
    words[k] = bits[whole + k];
    left[k] = present == nullptr || present[whole + k] != 0;
  }
  for (int32_t k = 0; k < count - whole; k += kGroup<T>) unpack((whole + k) / kGroup<T>, words + k, present_mask<T>(left + k));
}

}  // namespace
}  // namespace everbit
