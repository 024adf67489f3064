#include "learner.h"

#include <cstring>

#include "../layers/layers.h"
#include "../parallel.h"

namespace everbit {
namespace {

constexpr int32_t kMaxThreads = 256;
constexpr size_t kStateRedZone = 0;  // a learner's state is the same bytes in every build

// Bytes that no processor of its kind can address.
size_t address_limit(const Processor& processor) { return processor.address_bytes == 4 ? UINT32_MAX : kUnaddressable; }

const char* check_options(const Program& program, const LearnerOptions& o, const Processor& processor) {
  if (const char* problem = Sampler::check(o)) return problem;
  if (o.threads < 1 || o.threads > kMaxThreads) return "the number of threads must lie between 1 and 256";
  for (const Scale& rate : o.learning_rates) {
    if (!valid_scale(rate) || rate.mantissa < 0) return "a learning rate is negative or no normalised Scale";
  }
  if (const char* problem = Network::check(program, o.widths, o.batch(), processor)) return problem;
  return Head::check(program, o.classes, o.batch());
}

}  // namespace

size_t Learner::workspace_bytes(const Program& program, const Processor& processor) {
  return Network::block_count(program) * size_on<Block>(processor.address_bytes);
}

void Learner::layout(Block* blocks, Region& persistent, Region& fixed, const Processor& processor) {
  const int32_t batch = static_cast<int32_t>(options_.batch());
  state_ = persistent.take<State>(1);
  const size_t head_bytes = Head::scratch_bytes(program_, options_.classes, batch, options_.threads);
  use_.shared = network_.plan(program_, options_.widths, batch, options_.threads, head_bytes, options_.train_body, false, blocks,
                              persistent, fixed, processor);
  head_.plan(program_, options_.widths, options_.classes, options_.threads, options_.head_rule, persistent, fixed);
  const size_t before_replay = persistent.used;
  sampler_.plan_replay(options_, latent_bytes(program_), persistent);
  use_.replay = persistent.used - before_replay;

  sampler_.plan_batches(fixed);
  query_codes_ = fixed.take<uint8_t>(latent_bytes(program_));
  const size_t before_experience = fixed.used;
  sampler_.plan_experience(fixed);
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
  sampler_.start();
  *state_ = State{{options_.seed}, 0, 0};
}

const char* Learner::restore() {
  network_.refresh();
  return sampler_.restore();
}

const char* Learner::add(const uint8_t* image, int32_t label) {
  if (const char* problem = sampler_.check_new(label)) return problem;
  encode(image, sampler_.next());
  sampler_.add(label);
  return nullptr;
}

const char* Learner::add_latent(const uint8_t* codes, int32_t label) {
  if (const char* problem = sampler_.check_new(label)) return problem;
  latent_copy(program_, codes, sampler_.next());
  sampler_.add(label);
  return nullptr;
}

int64_t Learner::begin_training(int32_t epochs) {
  const int64_t steps = sampler_.begin(epochs, state_->random);
  head_.begin_experience(sampler_.present());
  return steps;
}

void Learner::decode(const Sampler::Batch& batch) {
  const int32_t tensor = program_.layer(program_.latent_layer()).output;
  uint8_t* values = static_cast<uint8_t*>(network_.activation(tensor));
  const size_t bytes = activation_bytes(program_.tensor(tensor), 1);
  parallel_for(options_.threads, batch.size, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) latent_decode(program_, batch.patterns[i], values + bytes * static_cast<size_t>(i));
  });
}

Learner::Step Learner::train_step() {
  const Sampler::Batch batch = sampler_.draw(state_->random);
  decode(batch);
  Scale step[kParameterKinds];
  for (int kind = 0; kind < kParameterKinds; ++kind) {
    step[kind] = options_.learning_rates[kind] * reciprocal(static_cast<uint32_t>(batch.size));
  }
  const Rounding rounding = options_.stochastic_rounding ? Rounding{true, state_->random.next()} : Rounding{};
  const bool body = network_.learns();
  network_.forward_learnable(batch.size, body);
  const int32_t right = network_.train_head(head_, batch.labels, batch.size, step[static_cast<int>(ParameterKind::kHead)], rounding);
  if (body) network_.backward(batch.size, step, rounding);
  return {right, batch.size};
}

void Learner::end_experience() {
  head_.end_experience(sampler_.counts());
  sampler_.end(state_->random);
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
