// A saved learner: a header of 64 bytes, then the engine's state. All little-endian, as every processor is that this library runs on.
#include <cstring>

#include "../digest.h"
#include "handle.h"

namespace everbit::c_api {
namespace {

constexpr char kMagic[8] = {'E', 'V', 'E', 'R', 'B', 'I', 'T', 'S'};
constexpr uint32_t kVersion = 1;

struct SavedHeader {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  uint64_t program;  // digests
  uint64_t options;
  uint64_t bytes;    // of the state
  uint64_t state;    // its digest
  uint64_t unused[2];
};
static_assert(sizeof(SavedHeader) == 64);

uint64_t digest_of(const uint8_t* bytes, size_t count) {
  Digest digest;
  digest.add(bytes, count);
  return digest.value();
}

// Of what shapes a state; the rest of the options may change from one run to the next.
uint64_t digest_of(const LearnerOptions& options) {
  Digest digest;
  const int64_t values[] = {options.classes,       options.replay_slots,      options.replay_per_class,
                            options.widths.binary, options.widths.non_binary, options.train_body};
  digest.add(values, sizeof values / sizeof values[0]);
  return digest.value();
}

SavedHeader header_of(const everbit_learner& learner) {
  SavedHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.program = digest_of(learner.program.image(), learner.program.image_bytes());
  header.options = digest_of(learner.options);
  header.bytes = learner.learner.state_bytes();
  header.state = digest_of(learner.learner.state(), learner.learner.state_bytes());
  return header;
}

// What is wrong with a header that was read; nullptr: nothing.
const char* problem_of(const SavedHeader& read, const SavedHeader& own) {
  if (std::memcmp(read.magic, own.magic, sizeof kMagic) != 0) return "these bytes are no saved learner";
  if (read.version > kVersion) return "the learner was saved by a newer library: update this one";
  if (read.version < 1 || read.reserved != 0 || read.unused[0] != 0 || read.unused[1] != 0) return "the saved learner's header is damaged";
  if (read.program != own.program) return "the learner was saved with another program";
  if (read.options != own.options || read.bytes != own.bytes) {
    return "the learner was saved with other classes, replay_slots, replay_per_class, binary_bits, other_bits or train_body";
  }
  return nullptr;
}

// Forgets everything, as after everbit_learner_init().
everbit_status start_again(everbit_learner* learner, everbit_status status, const char* detail) {
  learner->learner.start(reinterpret_cast<uint8_t*>(learner) + kHandleBytes, starting_workspace(*learner));
  return failed(learner, status, detail);
}

}  // namespace
}  // namespace everbit::c_api

using namespace everbit;
using namespace everbit::c_api;

extern "C" {

everbit_status everbit_digest(const everbit_learner* learner, uint64_t* digest) {
  if (learner == nullptr || digest == nullptr) return EVERBIT_NULL;
  if (!is_learner(learner)) return EVERBIT_NO_LEARNER;
  *digest = digest_of(learner->learner.state(), learner->learner.state_bytes());
  return EVERBIT_OK;
}

size_t everbit_saved_bytes(const everbit_learner* learner) {
  return learner == nullptr || !is_learner(learner) ? 0 : sizeof(SavedHeader) + learner->learner.state_bytes();
}

everbit_status everbit_save(everbit_learner* learner, everbit_write* write, void* context) {
  if (learner == nullptr) return EVERBIT_NULL;
  if (!is_learner(learner)) return EVERBIT_NO_LEARNER;
  if (write == nullptr) return failed(learner, EVERBIT_NULL, "the write callback is NULL");
  if (learner->learner.training()) {
    return failed(learner, EVERBIT_WRONG_ORDER, "the experience is being trained on: call everbit_consolidate() first");
  }
  const SavedHeader header = header_of(*learner);
  if (write(context, &header, sizeof header) != 0 || write(context, learner->learner.state(), learner->learner.state_bytes()) != 0) {
    return failed(learner, EVERBIT_NOT_WRITTEN, everbit_status_message(EVERBIT_NOT_WRITTEN));
  }
  return EVERBIT_OK;
}

everbit_status everbit_restore(everbit_learner* learner, everbit_read* read, void* context) {
  if (learner == nullptr) return EVERBIT_NULL;
  if (!is_learner(learner)) return EVERBIT_NO_LEARNER;
  if (read == nullptr) return failed(learner, EVERBIT_NULL, "the read callback is NULL");
  SavedHeader header{};
  const char* not_read = everbit_status_message(EVERBIT_NOT_READ);
  if (read(context, &header, sizeof header) != 0) return failed(learner, EVERBIT_NOT_READ, not_read);
  if (const char* problem = problem_of(header, header_of(*learner))) return failed(learner, EVERBIT_BAD_STATE, problem);
  uint8_t* state = reinterpret_cast<uint8_t*>(learner) + kHandleBytes;
  if (read(context, state, learner->learner.state_bytes()) != 0) return start_again(learner, EVERBIT_NOT_READ, not_read);
  if (digest_of(state, learner->learner.state_bytes()) != header.state) {
    return start_again(learner, EVERBIT_BAD_STATE, "the saved learner is damaged: its digest differs");
  }
  if (const char* problem = learner->learner.restore()) return start_again(learner, EVERBIT_BAD_STATE, problem);
  return EVERBIT_OK;
}

}  // extern "C"
