// A learner through three experiences: replay, CWR*, backward pass and update. After each, all that it learned goes into the digest; at the
// end, the bytes of its state.
#include "../layers/layers.h"
#include "golden_vectors.h"
#include "learned.h"

namespace everbit::selftest {
namespace {

LearnerOptions options_of(const LearningRun& run) {
  LearnerOptions o{};
  o.widths = run.widths;
  o.classes = kRunClasses;
  o.replay_slots = kReplaySlots;
  o.replay_per_class = kReplayPerClass;
  o.experience_patterns = kExperiencePatterns;
  o.batch_new = kBatchNew;
  o.batch_replayed = kBatchReplayed;
  o.head_rule = HeadRule::kCwr;
  o.train_body = true;
  o.count_replayed = run.count_replayed;
  o.threads = kThreads;
  o.stochastic_rounding = run.stochastic_rounding;
  o.seed = run.seed;
  for (int kind = 0; kind < kParameterKinds; ++kind) o.learning_rates[kind] = kRates[kind];
  return o;
}

void add_learner(Digest& digest, const Learner& learner, const Program& program, const LearningRun& run) {
  add_parameters(digest, learner.network());
  add_head(digest, program, run.widths.non_binary, kRunClasses, learner.head().consolidated());
  for (int32_t j = 0; j < kRunClasses; ++j) digest.add(learner.head().past(j));
  const ReplayMemory& memory = learner.replay_memory();
  for (int32_t slot = 0; slot < memory.size(); ++slot) {
    digest.add(memory.label(slot));
    digest.add(memory.pattern(slot), latent_bytes(program));
  }
  for (int32_t j = 0; j < kRunClasses; ++j) digest.add(memory.seen(static_cast<uint16_t>(j)));
}

}  // namespace

RunOutcome run_learning(const LearningRun& run, Room& room) {
  constexpr RunOutcome kTooSmall{{false, 0}, {false, 0}};
  Program program;
  Learner learner;
  MemoryUse use{};
  if (program.open(bytes_of(run.image), run.image.bytes) != nullptr) return {{true, 0}, {true, 0}};
  uint8_t* workspace = room.take<uint8_t>(Learner::workspace_bytes(program));
  const size_t pixels = static_cast<size_t>(program.input_tensor().elements());
  uint8_t* image = room.take<uint8_t>(pixels);
  int32_t* logits = room.take<int32_t>(static_cast<size_t>(kRunClasses));
  if (!room.enough) return kTooSmall;
  if (learner.plan(program, options_of(run), workspace, use) != nullptr) return {{true, 0}, {true, 0}};
  uint8_t* arena = room.take<uint8_t>(use.total);
  if (!room.enough) return kTooSmall;
  learner.start(arena, workspace);

  Digest learned;
  Numbers numbers{{run.seed}, Fill::kRandom};
  for (const Experience& experience : kExperiences) {
    for (int32_t i = 0; i < experience.count; ++i) {
      numbers.write(image, pixels, 0, 255);
      if (learner.add(image, experience.labels[i]) != nullptr) return {{true, 0}, {true, 0}};
    }
    for (int64_t step = learner.begin_training(kEpochs); step > 0; --step) learner.train_step();
    learner.end_experience();
    add_learner(learned, learner, program, run);
    numbers.write(image, pixels, 0, 255);
    learner.logits(image, logits);
    learned.add(logits, static_cast<size_t>(kRunClasses));
  }
  Digest state;
  state.add(learner.state(), learner.state_bytes());
  return {{true, learned.value()}, {true, state.value()}};
}

}  // namespace everbit::selftest
