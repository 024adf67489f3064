// The replay memory: a class-balanced reservoir of encoded latents (docs/method.md 1.3; V24, Algorithm 1, made unambiguous).
//
// Every pattern ever seen of a class is kept with equal probability: Vitter's algorithm R with a counter a class that persists. When
// the memory is full and a new class arrives, quotas shrink evenly and each class over its quota gives up random patterns, which keeps
// that property. Memory: the latents' bits, one label a slot, one counter a class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../random.h"
#include "memory_plan.h"

namespace everbit {

class ReplayMemory {
 public:
  static constexpr uint16_t kEmpty = 0xffff;

  // Takes its memory from `region`. slots: patterns it can hold; per_class: at most so many of one class; 0 slots: no replay.
  void plan(int32_t slots, int32_t per_class, int32_t classes, size_t pattern_bytes, Region& region);
  void start();
  // nullptr, or why a memory filled from elsewhere cannot be one that offer() left.
  const char* check() const;

  // Offers a pattern; it is kept or not by the rule above.
  void offer(const uint8_t* pattern, uint16_t label, Random& random);

  int32_t slots() const { return slots_; }
  int32_t size() const;
  int32_t count(uint16_t label) const;
  uint32_t seen(uint16_t label) const { return seen_[label]; }
  // Slots a class may fill now.
  int32_t quota() const;
  // Bytes of latents, labels and counters.
  size_t bytes() const;

  // Patterns held stand in slots 0 .. size() - 1.
  uint16_t label(int32_t slot) const { return labels_[slot]; }
  const uint8_t* pattern(int32_t slot) const { return patterns_ + static_cast<size_t>(slot) * pattern_bytes_; }

 private:
  void put(int32_t slot, const uint8_t* pattern, uint16_t label);
  int32_t slot_of_class(uint16_t label, int32_t index) const;
  void shrink_to(int32_t quota, Random& random);

  int32_t slots_ = 0;
  int32_t per_class_ = 0;
  int32_t classes_ = 0;
  size_t pattern_bytes_ = 0;
  uint8_t* patterns_ = nullptr;
  uint16_t* labels_ = nullptr;
  uint32_t* seen_ = nullptr;
};

}  // namespace everbit
