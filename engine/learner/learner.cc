#include "learner.h"

#include <cstring>

#include "../layers/layers.h"
#include "../parallel.h"

namespace everbit {
namespace {

constexpr int32_t kMaxPatterns = 1 << 28;
constexpr int32_t kMaxThreads = 256;
constexpr size_t kStateRedZone = 0;  // a learner's state is the same bytes in every build

// Bytes that no processor of its kind can address.
size_t address_limit(const Processor& processor) { return processor.address_bytes == 4 ? UINT32_MAX : kUnaddressable; }

const char* check_options(const Program& program, const LearnerOptions& o, const Processor& processor) {
  if (o.batch_new < 1 || o.batch_replayed < 0) return "a mini-batch needs at least one new pattern";
  if (o.threads < 1 || o.threads > kMaxThreads) return "the number of threads must lie between 1 and 256";
  if (o.replay_slots < 0 || o.replay_slots > kMaxPatterns || o.experience_patterns < 1 || o.experience_patterns > kMaxPatterns ||
      (o.replay_slots > 0 && o.replay_per_class < 1)) {
    return "the replay memory and the experience need a possible number of patterns";
  }
  for (const Scale& rate : o.learning_rates) {
    if (!valid_scale(rate) || rate.mantissa < 0) return "a learning rate is negative or no normalised Scale";
  }
  const int64_t batch = int64_t{o.batch_new} + o.batch_replayed;
  if (const char* problem = Network::check(program, o.widths, batch, processor)) return problem;
  return Head::check(program, o.classes, batch);
}

}  // namespace

size_t Learner::workspace_bytes(const Program& program, const Processor& processor) {
  return Network::block_count(program) * size_on<Block>(processor.address_bytes);
}

void Learner::layout(Block* blocks, Region& persistent, Region& fixed, const Processor& processor) {
  const int32_t batch = options_.batch_new + options_.batch_replayed;
  state_ = persistent.take<State>(1);
  const size_t head_bytes = Head::scratch_bytes(program_, options_.classes, batch, options_.threads);
  use_.shared = network_.plan(program_, options_.widths, batch, options_.threads, head_bytes, options_.train_body, false, blocks,
                              persistent, fixed, processor);
  head_.plan(program_, options_.widths, options_.classes, options_.threads, options_.head_rule, persistent, fixed);
  const size_t before_replay = persistent.used;
  replay_.plan(options_.replay_slots, options_.replay_per_class, options_.classes, latent_bytes_, persistent);
  use_.replay = persistent.used - before_replay;

  counts_ = fixed.take<uint32_t>(static_cast<size_t>(options_.classes));
  kept_ = fixed.take<uint8_t>(static_cast<size_t>(options_.classes));
  batch_labels_ = fixed.take<uint16_t>(static_cast<size_t>(batch));
  batch_codes_ = fixed.take<const uint8_t*>(static_cast<size_t>(batch));
  query_codes_ = fixed.take<uint8_t>(latent_bytes_);
  const size_t before_experience = fixed.used;
  experience_codes_ = fixed.take<uint8_t>(saturating_product(static_cast<size_t>(options_.experience_patterns), latent_bytes_));
  experience_labels_ = fixed.take<uint16_t>(static_cast<size_t>(options_.experience_patterns));
  use_.experience = fixed.used - before_experience;
  use_.fixed = before_experience;
  use_.persistent = persistent.used;
  use_.total = saturating_sum(saturating_sum(persistent.used, fixed.used), use_.shared);
}

const char* Learner::plan(const Program& program, const LearnerOptions& options, void* workspace, MemoryUse& use,
                          const Processor& processor) {
  if (const char* problem = check_options(program, options, processor)) return problem;
  program_ = program;
  options_ = options;
  latent_bytes_ = latent_bytes(program);
  Region persistent{nullptr, 0, kStateRedZone, processor.address_bytes}, fixed{nullptr, 0, kRedZone, processor.address_bytes};
  layout(static_cast<Block*>(workspace), persistent, fixed, processor);
  use = use_;
  return use_.total >= address_limit(processor) ? "the learner takes more memory than this processor can address" : nullptr;
}

void Learner::start(uint8_t* arena, void* workspace) {
  arena_ = arena;
  allow(arena, use_.total);
  std::memset(arena, 0, use_.total);
  Region persistent{arena, 0, kStateRedZone};
  Region fixed{arena + use_.persistent};
  Block* blocks = static_cast<Block*>(workspace);
  layout(blocks, persistent, fixed, this_processor());
  network_.start(arena + persistent.used + fixed.used, blocks);
  head_.start();
  replay_.start();
  *state_ = State{{options_.seed}, 0, 0};
  experience_size_ = 0;
  training_ = false;
}

const char* Learner::restore() {
  experience_size_ = 0;
  training_ = false;
  network_.refresh();
  return replay_.check();
}

// nullptr, or why the experience cannot take a pattern of that label.
const char* Learner::check_new(int32_t label) const {
  if (label < 0 || label >= options_.classes) return "the label lies beyond the learner's classes";
  if (training_) return "the experience is being trained on: end it before another begins";
  if (experience_size_ >= options_.experience_patterns) return "the experience holds as many patterns as was planned for";
  return nullptr;
}

const char* Learner::add(const uint8_t* image, int32_t label) {
  if (const char* problem = check_new(label)) return problem;
  encode(image, next_codes());
  keep_new(label);
  return nullptr;
}

const char* Learner::add_latent(const uint8_t* codes, int32_t label) {
  if (const char* problem = check_new(label)) return problem;
  latent_copy(program_, codes, next_codes());
  keep_new(label);
  return nullptr;
}

int64_t Learner::begin_training(int32_t epochs) {
  for (int32_t j = 0; j < options_.classes; ++j) {
    counts_[j] = 0;
    kept_[j] = options_.head_rule == HeadRule::kPlain;
  }
  for (int32_t i = 0; i < experience_size_; ++i) {
    ++counts_[experience_labels_[i]];
    kept_[experience_labels_[i]] = 1;
  }
  replay_size_ = replay_.size();
  for (int32_t slot = 0; slot < replay_size_; ++slot) {
    kept_[replay_.label(slot)] = 1;
    if (options_.count_replayed) ++counts_[replay_.label(slot)];
  }
  head_.begin_experience(kept_);
  epoch_position_ = experience_size_;  // the first step begins an epoch
  next_replay_pass();
  training_ = true;
  const int64_t steps = (int64_t{experience_size_} + options_.batch_new - 1) / options_.batch_new;
  return steps * epochs;
}

// Replay goes through the whole memory in a shuffled order before any pattern comes again.
void Learner::next_replay_pass() {
  replay_position_ = 0;
  replay_order_ = {static_cast<uint32_t>(replay_size_ > 0 ? replay_size_ : 1), state_->random.next()};
}

void Learner::decode_batch(int32_t batch) {
  const int32_t tensor = program_.layer(program_.latent_layer()).output;
  uint8_t* values = static_cast<uint8_t*>(network_.activation(tensor));
  const size_t bytes = activation_bytes(program_.tensor(tensor), 1);
  parallel_for(options_.threads, batch, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) latent_decode(program_, batch_codes_[i], values + bytes * static_cast<size_t>(i));
  });
}

Learner::Step Learner::train_step() {
  if (epoch_position_ >= experience_size_) {
    epoch_position_ = 0;
    epoch_order_ = {static_cast<uint32_t>(experience_size_), state_->random.next()};
  }
  const int32_t left = experience_size_ - epoch_position_;
  const int32_t fresh = left < options_.batch_new ? left : options_.batch_new;
  // A last, smaller batch keeps the proportion of new to replayed patterns.
  const int32_t share = static_cast<int32_t>((int64_t{options_.batch_replayed} * fresh + options_.batch_new - 1) / options_.batch_new);
  const int32_t replayed = replay_size_ == 0 ? 0 : share;
  const int32_t batch = fresh + replayed;
  for (int32_t i = 0; i < fresh; ++i) {
    const uint32_t at = epoch_order_(static_cast<uint32_t>(epoch_position_++));
    batch_codes_[i] = experience_codes_ + at * latent_bytes_;
    batch_labels_[i] = experience_labels_[at];
  }
  for (int32_t i = fresh; i < batch; ++i) {
    if (replay_position_ >= replay_size_) next_replay_pass();
    const int32_t slot = static_cast<int32_t>(replay_order_(static_cast<uint32_t>(replay_position_++)));
    batch_codes_[i] = replay_.pattern(slot);
    batch_labels_[i] = replay_.label(slot);
  }
  decode_batch(batch);

  Scale step[kParameterKinds];
  for (int kind = 0; kind < kParameterKinds; ++kind) {
    step[kind] = options_.learning_rates[kind] * reciprocal(static_cast<uint32_t>(batch));
  }
  const Rounding rounding = options_.stochastic_rounding ? Rounding{true, state_->random.next()} : Rounding{};
  const bool body = network_.learns();
  network_.forward_learnable(batch, body);
  const int32_t right = network_.train_head(head_, batch_labels_, batch, step[static_cast<int>(ParameterKind::kHead)], rounding);
  if (body) network_.backward(batch, step, rounding);
  return {right, batch};
}

void Learner::end_experience() {
  head_.end_experience(counts_);
  for (int32_t i = 0; i < experience_size_; ++i) {
    replay_.offer(experience_codes_ + static_cast<size_t>(i) * latent_bytes_, experience_labels_[i], state_->random);
  }
  experience_size_ = 0;
  training_ = false;
  ++state_->experiences;
}

void Learner::encode(const uint8_t* image, uint8_t* codes) {
  network_.forward_frozen(image);
  latent_encode(program_, network_.activation(program_.layer(program_.latent_layer()).inputs[0]), codes);
}

void Learner::logits(const uint8_t* image, int32_t* out) {
  encode(image, query_codes_);
  latent_logits(query_codes_, out);
}

void Learner::latent_logits(const uint8_t* codes, int32_t* out) {
  latent_decode(program_, codes, network_.activation(program_.layer(program_.latent_layer()).output));
  network_.forward_learnable(1, false);
  head_.logits(network_.activation(program_.layer(program_.layer_count() - 1).output), 1, false, out);
}

}  // namespace everbit
