// Bits in 64-bit words: +1 is stored as 1, -1 as 0. A pixel's channels start a new word; unused bits are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace everbit {

static inline int32_t words_for(int32_t channels) { return (channels + 63) / 64; }

// The word with ones where channels exist: all ones, but for the last word of a pixel.
static inline uint64_t channel_mask(int32_t channels, int32_t word) {
  const int32_t left = channels - word * 64;
  return left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
}

static inline int popcount(uint64_t word) { return __builtin_popcountll(word); }

// The word whose bit i is flags[i], 0 or 1. Eight bytes at once: the product gathers byte i at bit 56 + i.
static inline uint64_t packed(const uint8_t* flags) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) {
    uint64_t bytes;
    std::memcpy(&bytes, flags + 8 * i, sizeof bytes);
    word |= ((bytes * 0x0102040810204080u) >> 56) << (8 * i);
  }
  return word;
}

// Reads `bits` (1..16) bits at a bit offset of a byte string, lowest bit first.
static inline uint32_t read_bits(const uint8_t* bytes, size_t offset, int bits) {
  const uint8_t* first = bytes + (offset >> 3);
  const int shift = static_cast<int>(offset & 7);
  uint32_t value = first[0];
  if (shift + bits > 8) value |= uint32_t{first[1]} << 8;
  if (shift + bits > 16) value |= uint32_t{first[2]} << 16;
  return (value >> shift) & ((uint32_t{1} << bits) - 1);
}

// Writes `bits` bits at a bit offset; the bytes must be zero there.
static inline void write_bits(uint8_t* bytes, size_t offset, int bits, uint32_t value) {
  for (int i = 0; i < bits; ++i) {
    const size_t at = offset + static_cast<size_t>(i);
    bytes[at >> 3] = static_cast<uint8_t>(bytes[at >> 3] | (((value >> i) & 1) << (at & 7)));
  }
}

}  // namespace everbit
