#include "../include/everbit.h"

namespace {

constexpr const char* kMessages[] = {
    "no error",
    "a pointer that must point to something is NULL",
    "the memory does not begin at a multiple of EVERBIT_ALIGNMENT bytes",
    "these bytes are no program that this library can run",
    "an option is out of range, or belongs to a newer header",
    "the memory is smaller than everbit_learner_size() says",
    "there is no learner in this memory: call everbit_learner_init() first",
    "the label is below 0 or not below options.classes",
    "the experience is full: train and consolidate before observing more",
    "this call must come before or after another",
    "a number is out of range",
    "the learner knows no class yet: let it learn first",
    "the saved bytes are damaged, or belong to another program or other options",
    "the write callback returned an error",
    "the read callback returned an error",
};

}  // namespace

extern "C" const char* everbit_status_message(everbit_status status) {
  const int index = static_cast<int>(status);
  constexpr int kCount = sizeof kMessages / sizeof kMessages[0];
  static_assert(kCount == EVERBIT_NOT_READ + 1, "one message a status");
  return index >= 0 && index < kCount ? kMessages[index] : "there is no such status";
}
