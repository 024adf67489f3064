// Seeded randomness that is the same everywhere, and permutations that need no memory.
//
// What kernels use of it is static, as in fixed_point.h.
#pragma once

#include <cstdint>

namespace everbit {

// SplitMix64's output function (Steele, Lea, Flood 2014): a bijective mix of 64 bits.
static inline uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr uint64_t kRandomIncrement = 0x9e3779b97f4a7c15u;

// Draw number `index` of the generator whose state starts at `key`, without the draws before it.
static inline uint64_t draw_at(uint64_t key, uint64_t index) { return mix64(key + index * kRandomIncrement); }

// How an update is rounded. At random: every element has its own draw, so that no order of the elements changes the result.
struct Rounding {
  bool stochastic;
  uint64_t key;  // of a step of training; of one parameter in that step
};

static inline Rounding rounding_of_parameter(Rounding step, int32_t index) {
  return {step.stochastic, draw_at(step.key, static_cast<uint64_t>(index))};
}

static inline uint32_t rounding_draw(Rounding parameter, int32_t element) {
  return static_cast<uint32_t>(draw_at(parameter.key, static_cast<uint64_t>(element)) >> 32);
}

// SplitMix64. The state is the whole of it, so that a saved learner goes on exactly where it stopped.
struct Random {
  uint64_t state;

  uint64_t next() { return mix64(state += kRandomIncrement); }

  // A number in [0, bound), every one equally likely; bound >= 1. Lemire's multiply-and-reject.
  uint32_t below(uint32_t bound) {
    const uint32_t threshold = (0u - bound) % bound;
    for (;;) {
      const uint64_t product = (next() >> 32) * bound;
      if (static_cast<uint32_t>(product) >= threshold) return static_cast<uint32_t>(product >> 32);
    }
  }
};

// A shuffled order of [0, size) without an index array: a four-round Feistel network on the least even number of bits that holds
// size, walked until it lands inside (cycle walking). size >= 1; the key chooses the order.
struct Permutation {
  uint32_t size;
  uint64_t key;

  uint32_t operator()(uint32_t index) const {
    int half = 1;
    while ((uint64_t{1} << (2 * half)) < size) ++half;
    const uint32_t mask = (uint32_t{1} << half) - 1;
    do {
      uint32_t left = index >> half;
      uint32_t right = index & mask;
      for (uint64_t round = 1; round <= 4; ++round) {
        const uint32_t mixed = static_cast<uint32_t>(mix64(key + (round << 32) + right)) & mask;
        const uint32_t next = left ^ mixed;
        left = right;
        right = next;
      }
      index = (left << half) | right;
    } while (index >= size);
    return index;
  }
};

}  // namespace everbit
