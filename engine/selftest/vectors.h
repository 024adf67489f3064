// Golden vectors: what to run, and the digest (../digest.h) that it must have. The tables stand in golden_vectors.h, which
// tools/make_selftest.py writes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../learner/learner.h"
#include "room.h"

namespace everbit::selftest {

// One call of a kernel on numbers drawn from `seed`. What the parameters mean stands with each family (draw.h).
struct KernelVector {
  const char* name;
  int32_t family;
  int32_t parameters[5];
  Fill fills[2];
  uint64_t seed;
  uint64_t golden;
};

// A program image; words of 64 bits, little-endian as every target is.
struct Image {
  const uint64_t* words;
  size_t bytes;
};

// A whole network: forward, backward and update of two mini-batches, then the head's consolidation.
struct NetworkVector {
  const char* name;
  Image image;
  Widths widths;
  int32_t batch;
  uint64_t seed;
  uint64_t golden;
};

struct Experience {
  int32_t count;
  int32_t labels[16];
};

// A whole learning run; what all of them share are constants of golden_vectors.h. `learned`: digest of parameters, head, replay memory and
// logits after each experience, from the reference. `state`: digest of the bytes of Learner::state() at the end, whose layout is the
// engine's own: from the scalar kernels.
struct LearningRun {
  const char* name;
  Image image;
  Widths widths;
  bool count_replayed;
  bool stochastic_rounding;
  uint64_t seed;
  uint64_t learned;
  uint64_t state;
};

struct Outcome {
  bool ran;  // false: the room is too small
  uint64_t digest;
};

constexpr int32_t kThreads = 2;  // where there are threads; no digest depends on it

Outcome run_kernel(const KernelVector&, Room&);
Outcome run_network(const NetworkVector&, Room&);
// Two outcomes: `learned` and `state`.
struct RunOutcome {
  Outcome learned;
  Outcome state;
};
RunOutcome run_learning(const LearningRun&, Room&);

}  // namespace everbit::selftest
