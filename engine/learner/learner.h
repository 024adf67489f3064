// The learner: a program, its replay memory, its head, and the steps that make them learn (docs/method.md 1).
//
// One experience: begin with add() for every image, then begin_training(), train_step() until it is done, end_experience(). The caller
// owns all memory: plan() says how much, start() takes it, nothing allocates afterwards. Not thread-safe; two learners are independent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../random.h"
#include "head.h"
#include "network.h"
#include "sampler.h"

namespace everbit {

struct LearnerOptions : SamplerOptions {
  Widths widths;
  HeadRule head_rule;
  bool train_body;           // the learnable part learns too, not the head alone
  int32_t threads;           // that may work at once, 1 .. 256; no result depends on it
  bool stochastic_rounding;  // of the updates, by draws of the seed; else to nearest
  uint64_t seed;
  Scale learning_rates[kParameterKinds];
};

// Bytes by purpose.
struct MemoryUse {
  size_t persistent;  // what save keeps: state, parameters, head, replay memory
  size_t replay;      // of which the replay memory
  size_t experience;  // latents and labels of the experience being learned
  size_t fixed;       // tables, temporary head weights
  size_t shared;      // activations, gradients and scratch
  size_t total;       // the arena
};

class Learner {
 public:
  static size_t workspace_bytes(const Program& program, const Processor& processor = this_processor());

  // Sizes everything. workspace: workspace_bytes() of this processor, aligned to 64, also needed by start(). nullptr, or what is wrong.
  // processor: whose memory is planned; a learner starts only with its own.
  const char* plan(const Program& program, const LearnerOptions& options, void* workspace, MemoryUse& use,
                   const Processor& processor = this_processor());
  // Takes an arena of MemoryUse::total bytes, aligned to 64, after plan(). workspace may lie in the last MemoryUse::shared bytes of it.
  void start(uint8_t* arena, void* workspace);

  // What a saved learner keeps: the same bytes on every machine, for the same program and options.
  const uint8_t* state() const { return arena_; }
  size_t state_bytes() const { return use_.persistent; }
  // After state() was overwritten with another learner's state. nullptr, or why that state is impossible: it must not be used then.
  const char* restore();

  // Adds an image (height x width x channels bytes), or a latent that encode() wrote, to the experience. nullptr, or what is wrong.
  const char* add(const uint8_t* image, int32_t label);
  const char* add_latent(const uint8_t* codes, int32_t label);
  // Steps that training the experience takes; the experience must hold at least one image. After it, no image can be added.
  int64_t begin_training(int32_t epochs);
  // Whether begin_training() was called and end_experience() was not: what train_step() and end_experience() need.
  bool training() const { return sampler_.begun(); }
  // One mini-batch. Returns how many of its patterns were right before the step, and their number.
  struct Step {
    int32_t right;
    int32_t patterns;
  };
  Step train_step();
  // Consolidates the head, fills the replay memory, forgets the experience.
  void end_experience();

  // The latent of one image as the replay memory stores it: latent_bytes() bytes.
  void encode(const uint8_t* image, uint8_t* codes);
  // Logits [classes] in units of 2^-16 of one image, or of a latent that encode() wrote; of unknown classes they mean nothing.
  void logits(const uint8_t* image, int32_t* out);
  void latent_logits(const uint8_t* codes, int32_t* out);
  // Room for the logits of one image; its content lasts until the next call.
  int32_t* logits_room() const { return network_.head_memory(); }
  bool known(int32_t label) const { return head_.known(label); }

  const MemoryUse& memory() const { return use_; }
  const ReplayMemory& replay_memory() const { return sampler_.replay(); }
  const Network& network() const { return network_; }
  const Head& head() const { return head_; }
  int32_t experience_size() const { return sampler_.size(); }

 private:
  struct State {
    Random random;
    uint32_t experiences;
    uint32_t reserved;
  };

  void layout(Block* blocks, Region& persistent, Region& fixed, const Processor& processor);
  void decode(const Sampler::Batch& batch);

  Program program_;
  LearnerOptions options_{};
  MemoryUse use_{};
  uint8_t* arena_ = nullptr;

  State* state_ = nullptr;
  Network network_;
  Head head_;
  Sampler sampler_;
  uint8_t* query_codes_ = nullptr;  // of the image being classified
};

}  // namespace everbit
