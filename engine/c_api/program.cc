#include <cstring>

#include "../layers/layers.h"
#include "handle.h"

namespace everbit::c_api {
namespace {

constexpr uint64_t kProgramMagic = 0x6d6172676f7270;

// What everbit_program holds.
struct Opened {
  uint64_t magic;
  Program program;
};
static_assert(sizeof(Opened) <= sizeof(everbit_program));

}  // namespace

Failure program_of(const everbit_program* from, Program& program) {
  Opened opened;
  std::memcpy(static_cast<void*>(&opened), from, sizeof opened);
  if (opened.magic != kProgramMagic) return {EVERBIT_BAD_PROGRAM, "the program was never opened: call everbit_program_open() first"};
  program = opened.program;
  return kNone;
}

}  // namespace everbit::c_api

using namespace everbit;
using namespace everbit::c_api;

extern "C" everbit_status everbit_program_open(everbit_program* program, const void* image, size_t bytes, const char** detail) {
  if (program == nullptr || image == nullptr) return told({EVERBIT_NULL, "program and image must not be NULL"}, detail);
  std::memset(program, 0, sizeof *program);
  if (misaligned(image)) return told({EVERBIT_MISALIGNED, "the program's bytes are not aligned to 64"}, detail);
  Opened opened{kProgramMagic, {}};
  if (const char* problem = opened.program.open(static_cast<const uint8_t*>(image), bytes)) {
    return told({EVERBIT_BAD_PROGRAM, problem}, detail);
  }
  std::memcpy(program, &opened, sizeof opened);
  return told(kNone, detail);
}

extern "C" everbit_facts everbit_program_facts(const everbit_program* from) {
  Program program;
  if (from == nullptr || program_of(from, program)) return everbit_facts{};
  const TensorRecord& input = program.input_tensor();
  return {input.height, input.width, input.channels, program.known_classes(), program.feature_tensor().elements(), 0,
          latent_bytes(program), Learner::workspace_bytes(program)};
}
