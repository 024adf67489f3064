#include "sampler.h"

#include "../program.h"

namespace everbit {
namespace {

constexpr int32_t kMaxPatterns = 1 << 28;

}  // namespace

const char* Sampler::check(const SamplerOptions& o) {
  if (o.classes < 1 || o.classes > kMaxClasses) return "the number of classes must lie between 1 and 65534";
  if (o.batch_new < 1 || o.batch_replayed < 0) return "a mini-batch needs at least one new pattern";
  if (o.replay_slots < 0 || o.replay_slots > kMaxPatterns || o.experience_patterns < 1 || o.experience_patterns > kMaxPatterns ||
      (o.replay_slots > 0 && o.replay_per_class < 1)) {
    return "the replay memory and the experience need a possible number of patterns";
  }
  return nullptr;
}

void Sampler::plan_replay(const SamplerOptions& options, size_t pattern_bytes, Region& persistent) {
  options_ = options;
  pattern_bytes_ = pattern_bytes;
  replay_.plan(options.replay_slots, options.replay_per_class, options.classes, pattern_bytes, persistent);
}

void Sampler::plan_batches(Region& fixed) {
  counts_ = fixed.take<uint32_t>(static_cast<size_t>(options_.classes));
  present_ = fixed.take<uint8_t>(static_cast<size_t>(options_.classes));
  batch_labels_ = fixed.take<uint16_t>(static_cast<size_t>(options_.batch()));
  batch_patterns_ = fixed.take<const uint8_t*>(static_cast<size_t>(options_.batch()));
}

void Sampler::plan_experience(Region& fixed) {
  patterns_ = fixed.take<uint8_t>(saturating_product(static_cast<size_t>(options_.experience_patterns), pattern_bytes_));
  labels_ = fixed.take<uint16_t>(static_cast<size_t>(options_.experience_patterns));
}

void Sampler::start() {
  replay_.start();
  size_ = 0;
  begun_ = false;
}

const char* Sampler::restore() {
  size_ = 0;
  begun_ = false;
  return replay_.check();
}

const char* Sampler::check_new(int32_t label) const {
  if (label < 0 || label >= options_.classes) return "the label lies beyond the learner's classes";
  if (begun_) return "the experience is being trained on: end it before another begins";
  if (size_ >= options_.experience_patterns) return "the experience holds as many patterns as was planned for";
  return nullptr;
}

int64_t Sampler::begin(int32_t epochs, Random& random) {
  for (int32_t j = 0; j < options_.classes; ++j) {
    counts_[j] = 0;
    present_[j] = 0;
  }
  for (int32_t i = 0; i < size_; ++i) {
    ++counts_[labels_[i]];
    present_[labels_[i]] = 1;
  }
  replay_size_ = replay_.size();
  for (int32_t slot = 0; slot < replay_size_; ++slot) {
    present_[replay_.label(slot)] = 1;
    if (options_.count_replayed) ++counts_[replay_.label(slot)];
  }
  epoch_position_ = size_;  // the first mini-batch begins an epoch
  next_replay_pass(random);
  begun_ = true;
  const int64_t batches = (int64_t{size_} + options_.batch_new - 1) / options_.batch_new;
  return batches * epochs;
}

// Replay goes through the whole memory in a shuffled order before any pattern comes again.
void Sampler::next_replay_pass(Random& random) {
  replay_position_ = 0;
  replay_order_ = {static_cast<uint32_t>(replay_size_ > 0 ? replay_size_ : 1), random.next()};
}

Sampler::Batch Sampler::draw(Random& random) {
  if (epoch_position_ >= size_) {
    epoch_position_ = 0;
    epoch_order_ = {static_cast<uint32_t>(size_), random.next()};
  }
  const int32_t left = size_ - epoch_position_;
  const int32_t fresh = left < options_.batch_new ? left : options_.batch_new;
  // A last, smaller batch keeps the proportion of new to replayed patterns.
  const int32_t share = static_cast<int32_t>((int64_t{options_.batch_replayed} * fresh + options_.batch_new - 1) / options_.batch_new);
  const int32_t batch = fresh + (replay_size_ == 0 ? 0 : share);
  for (int32_t i = 0; i < fresh; ++i) {
    const uint32_t at = epoch_order_(static_cast<uint32_t>(epoch_position_++));
    batch_patterns_[i] = patterns_ + at * pattern_bytes_;
    batch_labels_[i] = labels_[at];
  }
  for (int32_t i = fresh; i < batch; ++i) {
    if (replay_position_ >= replay_size_) next_replay_pass(random);
    const int32_t slot = static_cast<int32_t>(replay_order_(static_cast<uint32_t>(replay_position_++)));
    batch_patterns_[i] = replay_.pattern(slot);
    batch_labels_[i] = replay_.label(slot);
  }
  return {batch_patterns_, batch_labels_, batch};
}

void Sampler::end(Random& random) {
  for (int32_t i = 0; i < size_; ++i) replay_.offer(patterns_ + static_cast<size_t>(i) * pattern_bytes_, labels_[i], random);
  size_ = 0;
  begun_ = false;
}

}  // namespace everbit
