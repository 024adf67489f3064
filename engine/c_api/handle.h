// What the C API keeps of a learner, at the beginning of its memory; and how programs and options of the C side become the engine's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../include/everbit.h"
#include "../learner/learner.h"

// The handle, then the learner's arena.
struct everbit_learner {
  uint64_t magic;
  const char* detail;  // of the last failure
  everbit_memory memory;
  everbit::Program program;
  everbit::LearnerOptions options;
  everbit::Learner learner;
};

namespace everbit::c_api {

constexpr uint64_t kLearnerMagic = 0x72656e7261656c65;
// The same wherever a learner runs, so that its memory can be planned elsewhere.
constexpr size_t kHandleBytes = 1024;
static_assert(sizeof(everbit_learner) <= kHandleBytes);
static_assert(kAlignment == EVERBIT_ALIGNMENT && kHandleBytes % kAlignment == 0);

// What went wrong: a status, and words where the status does not say all.
struct Failure {
  everbit_status status;
  const char* detail;

  explicit operator bool() const { return status != EVERBIT_OK; }
};
constexpr Failure kNone{EVERBIT_OK, ""};

// Reads a program that everbit_program_open() wrote; BAD_PROGRAM where it did not.
Failure program_of(const everbit_program* from, Program& program);
// The engine's options, those of them that a caller's older header lacks at their defaults.
Failure options_of(const everbit_options* from, LearnerOptions& options);

// The memory of a learner by purpose; `use` is its arena, `workspace` what planning it takes, both for one and the same processor.
everbit_memory memory_of(const MemoryUse& use, size_t workspace);

inline bool misaligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % kAlignment != 0; }

inline everbit_status told(Failure failure, const char** detail) {
  if (detail != nullptr) *detail = failure.detail;
  return failure.status;
}

inline everbit_status failed(everbit_learner* learner, everbit_status status, const char* detail) {
  learner->detail = detail;
  return status;
}

inline bool is_learner(const everbit_learner* learner) { return learner->magic == kLearnerMagic; }

// The planner's room while a learner starts: what layers share, at the end of the arena, holds nothing yet.
inline void* starting_workspace(const everbit_learner& learner) {
  uint8_t* arena = reinterpret_cast<uint8_t*>(const_cast<everbit_learner*>(&learner)) + kHandleBytes;
  return arena + learner.memory.state + learner.memory.fixed + learner.memory.experience;
}

}  // namespace everbit::c_api
