#include <cstring>

#include "../layers/layers.h"
#include "handle.h"

namespace everbit::c_api {

everbit_memory memory_of(const MemoryUse& use, size_t workspace) {
  const size_t before = saturating_sum(kHandleBytes, use.total - use.shared);
  const size_t shared = use.shared > workspace ? use.shared : aligned(workspace);
  return {use.persistent, use.replay, use.experience, use.fixed, shared, kHandleBytes, saturating_sum(before, shared)};
}

namespace {

constexpr int32_t kMaxEpochs = 1 << 16;

// What the two calls that plan begin with.
Failure plan(const everbit_program* program, const everbit_options* options, void* workspace, everbit_learner& handle) {
  if (const Failure failure = program_of(program, handle.program)) return failure;
  if (const Failure failure = options_of(options, handle.options)) return failure;
  MemoryUse use{};
  if (const char* problem = handle.learner.plan(handle.program, handle.options, workspace, use)) return {EVERBIT_BAD_OPTIONS, problem};
  handle.memory = memory_of(use, Learner::workspace_bytes(handle.program));
  return kNone;
}

// The learner of a call that may fail, or why it cannot begin.
#define EVERBIT_BEGIN(learner)                        \
  if ((learner) == nullptr) return EVERBIT_NULL;      \
  if (!is_learner(learner)) return EVERBIT_NO_LEARNER

everbit_status refused(everbit_learner* learner, int32_t label, const char* detail) {
  const bool bad_label = label < 0 || label >= learner->options.classes;
  return failed(learner, bad_label ? EVERBIT_BAD_LABEL : learner->learner.training() ? EVERBIT_WRONG_ORDER : EVERBIT_FULL, detail);
}

constexpr const char* kNull = "a pointer that must point to something is NULL";
constexpr const char* kNoTraining = "no experience is being trained on: call everbit_begin_training() first";

using Logits = void (Learner::*)(const uint8_t*, int32_t*);

everbit_status predict(everbit_learner* learner, Logits compute, const uint8_t* from, int32_t* label, int32_t* logits,
                       int32_t* probabilities) {
  EVERBIT_BEGIN(learner);
  if (from == nullptr || label == nullptr) return failed(learner, EVERBIT_NULL, kNull);
  const int32_t classes = learner->options.classes;
  int32_t* values = learner->learner.logits_room();
  (learner->learner.*compute)(from, values);
  // The known classes' logits move to the front: the softmax is over them alone.
  int32_t best = kAbsent, known = 0, top = INT32_MIN;
  for (int32_t j = 0; j < classes; ++j) {
    const bool is_known = learner->learner.known(j);
    if (logits != nullptr) logits[j] = is_known ? values[j] : INT32_MIN;
    if (!is_known) continue;
    if (best == kAbsent || values[j] > top) {
      top = values[j];
      best = j;
    }
    values[known++] = values[j];
  }
  if (known == 0) return failed(learner, EVERBIT_NO_CLASS, everbit_status_message(EVERBIT_NO_CLASS));
  *label = best;
  if (probabilities == nullptr) return EVERBIT_OK;
  softmax(values, known, probabilities);
  for (int32_t j = classes - 1; j >= 0; --j) probabilities[j] = learner->learner.known(j) ? probabilities[--known] : 0;
  return EVERBIT_OK;
}

}  // namespace
}  // namespace everbit::c_api

using namespace everbit;
using namespace everbit::c_api;

extern "C" {

everbit_status everbit_learner_size(const everbit_program* program, const everbit_options* options, void* workspace,
                                    everbit_memory* memory, const char** detail) {
  if (program == nullptr || options == nullptr || workspace == nullptr || memory == nullptr) return told({EVERBIT_NULL, kNull}, detail);
  if (misaligned(workspace)) return told({EVERBIT_MISALIGNED, "the workspace is not aligned to 64 bytes"}, detail);
  everbit_learner handle{};
  const Failure failure = plan(program, options, workspace, handle);
  if (!failure) *memory = handle.memory;
  return told(failure, detail);
}

everbit_status everbit_learner_init(void* memory, size_t bytes, const everbit_program* program, const everbit_options* options,
                                    everbit_learner** learner, const char** detail) {
  if (memory == nullptr || program == nullptr || options == nullptr || learner == nullptr) return told({EVERBIT_NULL, kNull}, detail);
  if (misaligned(memory)) return told({EVERBIT_MISALIGNED, "the memory is not aligned to 64 bytes"}, detail);
  constexpr Failure kTooSmall{EVERBIT_TOO_SMALL, "the memory is smaller than everbit_learner_size() says"};
  everbit_learner handle{};
  if (const Failure failure = program_of(program, handle.program)) return told(failure, detail);
  const size_t workspace = aligned(Learner::workspace_bytes(handle.program));
  const size_t whole = bytes / kAlignment * kAlignment;
  if (whole < kHandleBytes || whole - kHandleBytes < workspace) return told(kTooSmall, detail);
  uint8_t* start = static_cast<uint8_t*>(memory);
  allow(start, bytes);
  if (const Failure failure = plan(program, options, start + whole - workspace, handle)) return told(failure, detail);
  if (bytes < handle.memory.total) return told(kTooSmall, detail);
  handle.magic = kLearnerMagic;
  handle.detail = "";
  std::memcpy(memory, &handle, sizeof handle);
  everbit_learner* made = static_cast<everbit_learner*>(memory);
  made->learner.start(start + kHandleBytes, starting_workspace(*made));
  *learner = made;
  return told(kNone, detail);
}

const char* everbit_learner_detail(const everbit_learner* learner) {
  return learner == nullptr || !is_learner(learner) ? "there is no learner" : learner->detail;
}

everbit_status everbit_learner_memory(const everbit_learner* learner, everbit_memory* memory) {
  EVERBIT_BEGIN(learner);
  if (memory == nullptr) return EVERBIT_NULL;
  *memory = learner->memory;
  return EVERBIT_OK;
}

everbit_status everbit_observe(everbit_learner* learner, const uint8_t* image, int32_t label) {
  EVERBIT_BEGIN(learner);
  if (image == nullptr) return failed(learner, EVERBIT_NULL, kNull);
  const char* problem = learner->learner.add(image, label);
  return problem == nullptr ? EVERBIT_OK : refused(learner, label, problem);
}

everbit_status everbit_observe_latent(everbit_learner* learner, const uint8_t* latent, int32_t label) {
  EVERBIT_BEGIN(learner);
  if (latent == nullptr) return failed(learner, EVERBIT_NULL, kNull);
  const char* problem = learner->learner.add_latent(latent, label);
  return problem == nullptr ? EVERBIT_OK : refused(learner, label, problem);
}

everbit_status everbit_encode(everbit_learner* learner, const uint8_t* image, uint8_t* latent) {
  EVERBIT_BEGIN(learner);
  if (image == nullptr || latent == nullptr) return failed(learner, EVERBIT_NULL, kNull);
  learner->learner.encode(image, latent);
  return EVERBIT_OK;
}

everbit_status everbit_begin_training(everbit_learner* learner, int32_t epochs, int64_t* steps) {
  EVERBIT_BEGIN(learner);
  if (steps == nullptr) return failed(learner, EVERBIT_NULL, kNull);
  if (epochs < 1 || epochs > kMaxEpochs) return failed(learner, EVERBIT_BAD_NUMBER, "the epochs must lie between 1 and 65536");
  if (learner->learner.training()) return failed(learner, EVERBIT_WRONG_ORDER, "the experience is being trained on already");
  if (learner->learner.experience_size() == 0) {
    return failed(learner, EVERBIT_WRONG_ORDER, "nothing was observed: call everbit_observe() first");
  }
  *steps = learner->learner.begin_training(epochs);
  return EVERBIT_OK;
}

everbit_status everbit_train_step(everbit_learner* learner, everbit_step* step) {
  EVERBIT_BEGIN(learner);
  if (!learner->learner.training()) return failed(learner, EVERBIT_WRONG_ORDER, kNoTraining);
  const Learner::Step done = learner->learner.train_step();
  if (step != nullptr) *step = {done.right, done.patterns};
  return EVERBIT_OK;
}

everbit_status everbit_consolidate(everbit_learner* learner) {
  EVERBIT_BEGIN(learner);
  if (!learner->learner.training()) return failed(learner, EVERBIT_WRONG_ORDER, kNoTraining);
  learner->learner.end_experience();
  return EVERBIT_OK;
}

everbit_status everbit_predict(everbit_learner* learner, const uint8_t* image, int32_t* label, int32_t* logits, int32_t* probabilities) {
  return predict(learner, &Learner::logits, image, label, logits, probabilities);
}

everbit_status everbit_predict_latent(everbit_learner* learner, const uint8_t* latent, int32_t* label, int32_t* logits,
                                      int32_t* probabilities) {
  return predict(learner, &Learner::latent_logits, latent, label, logits, probabilities);
}

int everbit_knows(const everbit_learner* learner, int32_t label) {
  if (learner == nullptr || !is_learner(learner) || label < 0 || label >= learner->options.classes) return 0;
  return learner->learner.known(label) ? 1 : 0;
}

}  // extern "C"
