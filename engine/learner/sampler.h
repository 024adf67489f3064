// What is learned, and when: the patterns of an experience, the replay memory, and the mini-batches drawn from both (docs/method.md 1.2,
// 1.3). Of a pattern it knows the bytes and the label alone, so that a learner in other arithmetic sees the same mini-batches.
//
// One experience: add() for every pattern, then begin(), draw() as often as that says, end().
#pragma once

#include <cstddef>
#include <cstdint>

#include "../random.h"
#include "replay_memory.h"

namespace everbit {

struct SamplerOptions {
  int32_t classes;              // most classes there can ever be, 1 .. 65534
  int32_t replay_slots;         // patterns in the replay memory; 0: no replay
  int32_t replay_per_class;     // at most so many of one class
  int32_t experience_patterns;  // most new patterns in one experience
  int32_t batch_new;            // B_N of docs/method.md 1.2
  int32_t batch_replayed;       // B_R
  bool count_replayed;          // CWR*: replayed patterns count as patterns of the experience

  int64_t batch() const { return int64_t{batch_new} + batch_replayed; }
};

class Sampler {
 public:
  // nullptr, or what is wrong.
  static const char* check(const SamplerOptions& options);

  // Its memory, in three pieces: what a saved learner keeps, what mini-batches need, and the experience.
  void plan_replay(const SamplerOptions& options, size_t pattern_bytes, Region& persistent);
  void plan_batches(Region& fixed);
  void plan_experience(Region& fixed);
  void start();
  // After the replay memory was overwritten with another's. nullptr, or why that one is impossible.
  const char* restore();

  // nullptr, or why the experience cannot take a pattern of that label. If it can: write the pattern to next(), then add().
  const char* check_new(int32_t label) const;
  uint8_t* next() { return patterns_ + static_cast<size_t>(size_) * pattern_bytes_; }
  void add(int32_t label) { labels_[size_++] = static_cast<uint16_t>(label); }
  int32_t size() const { return size_; }

  // Mini-batches that the experience takes; it must hold at least one pattern. After it, none can be added before end().
  int64_t begin(int32_t epochs, Random& random);
  bool begun() const { return begun_; }
  // Classes among the patterns of the experience and of the replay memory.
  const uint8_t* present() const { return present_; }
  // Patterns of each class in the experience, as CWR* counts them.
  const uint32_t* counts() const { return counts_; }

  // A mini-batch: patterns and their labels, until the next one is drawn.
  struct Batch {
    const uint8_t* const* patterns;
    const uint16_t* labels;
    int32_t size;
  };
  Batch draw(Random& random);

  // Fills the replay memory and forgets the experience.
  void end(Random& random);

  const ReplayMemory& replay() const { return replay_; }

 private:
  void next_replay_pass(Random& random);

  SamplerOptions options_{};
  size_t pattern_bytes_ = 0;
  ReplayMemory replay_;
  uint8_t* patterns_ = nullptr;
  uint16_t* labels_ = nullptr;
  uint32_t* counts_ = nullptr;
  uint8_t* present_ = nullptr;
  uint16_t* batch_labels_ = nullptr;
  const uint8_t** batch_patterns_ = nullptr;

  int32_t size_ = 0;
  bool begun_ = false;
  int32_t epoch_position_ = 0;
  Permutation epoch_order_{1, 0};
  int32_t replay_size_ = 0;
  int32_t replay_position_ = 0;
  Permutation replay_order_{1, 0};
};

}  // namespace everbit
