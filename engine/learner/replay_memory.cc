#include "replay_memory.h"

#include <cstring>

#include "../program.h"

namespace everbit {

void ReplayMemory::plan(int32_t slots, int32_t per_class, int32_t classes, size_t pattern_bytes, Region& region) {
  slots_ = slots;
  per_class_ = per_class;
  classes_ = classes;
  pattern_bytes_ = pattern_bytes;
  patterns_ = region.take<uint8_t>(saturating_product(static_cast<size_t>(slots), pattern_bytes));
  labels_ = region.take<uint16_t>(static_cast<size_t>(slots));
  seen_ = region.take<uint32_t>(static_cast<size_t>(classes));
}

void ReplayMemory::start() {
  for (int32_t i = 0; i < slots_; ++i) labels_[i] = kEmpty;
  for (int32_t j = 0; j < classes_; ++j) seen_[j] = 0;
}

const char* ReplayMemory::check() const {
  const int32_t held = size();
  for (int32_t i = 0; i < slots_; ++i) {
    if ((labels_[i] == kEmpty) != (i >= held)) return "the replay memory has a hole";
    if (i < held && labels_[i] >= classes_) return "the replay memory holds a class beyond the learner's";
  }
  const int32_t most = quota();
  for (int32_t j = 0; j < classes_; ++j) {
    const int32_t patterns = count(static_cast<uint16_t>(j));
    if (patterns > most || static_cast<uint32_t>(patterns) > seen_[j]) return "the replay memory holds too many patterns of a class";
  }
  return nullptr;
}

size_t ReplayMemory::bytes() const {
  return static_cast<size_t>(slots_) * (pattern_bytes_ + sizeof(uint16_t)) + static_cast<size_t>(classes_) * sizeof(uint32_t);
}

int32_t ReplayMemory::size() const {
  int32_t held = 0;
  while (held < slots_ && labels_[held] != kEmpty) ++held;
  return held;
}

int32_t ReplayMemory::count(uint16_t label) const {
  int32_t held = 0;
  for (int32_t i = 0; i < slots_; ++i) held += labels_[i] == label;
  return held;
}

int32_t ReplayMemory::quota() const {
  int32_t present = 0;
  for (int32_t j = 0; j < classes_; ++j) present += seen_[j] != 0;
  if (present == 0) return per_class_;
  const int32_t share = slots_ / present;
  return share < per_class_ ? share : per_class_;
}

int32_t ReplayMemory::slot_of_class(uint16_t label, int32_t index) const {
  for (int32_t i = 0; i < slots_; ++i) {
    if (labels_[i] == label && index-- == 0) return i;
  }
  return kAbsent;
}

void ReplayMemory::put(int32_t slot, const uint8_t* pattern, uint16_t label) {
  std::memcpy(patterns_ + static_cast<size_t>(slot) * pattern_bytes_, pattern, pattern_bytes_);
  labels_[slot] = label;
}

void ReplayMemory::shrink_to(int32_t quota, Random& random) {
  for (int32_t j = 0; j < classes_; ++j) {
    const uint16_t label = static_cast<uint16_t>(j);
    for (int32_t held = count(label); held > quota; --held) {
      const int32_t slot = slot_of_class(label, static_cast<int32_t>(random.below(static_cast<uint32_t>(held))));
      const int32_t last = size() - 1;  // fills the hole
      if (slot != last) put(slot, pattern(last), labels_[last]);
      labels_[last] = kEmpty;
    }
  }
}

void ReplayMemory::offer(const uint8_t* pattern, uint16_t label, Random& random) {
  if (slots_ == 0) return;
  const bool new_class = seen_[label] == 0;
  if (seen_[label] != UINT32_MAX) ++seen_[label];
  const int32_t quota = this->quota();
  if (new_class) shrink_to(quota, random);
  const int32_t held = count(label);
  if (held < quota && seen_[label] <= static_cast<uint32_t>(quota)) {
    put(size(), pattern, label);  // there is room: quotas add up to the slots at most
    return;
  }
  // Algorithm R: the new pattern is one of the `held` kept out of all seen with probability held / seen.
  const uint32_t draw = random.below(seen_[label]);
  if (draw < static_cast<uint32_t>(held)) put(slot_of_class(label, static_cast<int32_t>(draw)), pattern, label);
}

}  // namespace everbit
