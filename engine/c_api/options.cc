#include <cstring>

#include "handle.h"

namespace everbit::c_api {
namespace {

static_assert(EVERBIT_KINDS == kParameterKinds && EVERBIT_HEAD == static_cast<int>(ParameterKind::kHead) &&
              EVERBIT_WEIGHT == static_cast<int>(ParameterKind::kWeight));
static_assert(sizeof(everbit_rate) == sizeof(Scale));

// The struct of the first version; later ones begin with it.
constexpr uint32_t kLeastSize = sizeof(everbit_options);

constexpr Failure bad(const char* detail) { return {EVERBIT_BAD_OPTIONS, detail}; }

bool is_switch(int32_t value) { return value == 0 || value == 1; }

}  // namespace

Failure options_of(const everbit_options* from, LearnerOptions& options) {
  if (from->size < kLeastSize) return bad("the options were never begun: call everbit_options_init() first");
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(from);
  for (uint32_t i = sizeof(everbit_options); i < from->size; ++i) {
    if (bytes[i] != 0) return bad("the options hold what a newer library knows: update this one");
  }
  const everbit_options& o = *from;
  if (o.head != EVERBIT_CWR && o.head != EVERBIT_PLAIN) return bad("the head must be EVERBIT_CWR or EVERBIT_PLAIN");
  if (!is_switch(o.train_body) || !is_switch(o.count_replayed) || !is_switch(o.stochastic_rounding)) {
    return bad("train_body, count_replayed and stochastic_rounding must be 0 or 1");
  }
  options = {};
  options.widths = {o.binary_bits, o.other_bits};
  options.classes = o.classes;
  options.replay_slots = o.replay_slots;
  options.replay_per_class = o.replay_per_class;
  options.experience_patterns = o.experience_patterns;
  options.batch_new = o.batch_new;
  options.batch_replayed = o.batch_replayed;
  options.head_rule = o.head == EVERBIT_CWR ? HeadRule::kCwr : HeadRule::kPlain;
  options.train_body = o.train_body != 0;
  options.count_replayed = o.count_replayed != 0;
  options.threads = o.threads;
  options.stochastic_rounding = o.stochastic_rounding != 0;
  options.seed = o.seed;
  std::memcpy(options.learning_rates, o.rates, sizeof options.learning_rates);
  return kNone;
}

}  // namespace everbit::c_api

using namespace everbit;
using namespace everbit::c_api;

extern "C" everbit_rate everbit_ratio(uint32_t numerator, uint32_t denominator) {
  if (denominator == 0) return {-1, 0};
  if (numerator == 0) return {0, 0};
  // Both brought to 32 bits, so that their ratio lies between 1/2 and 2.
  const int up = 32 - bit_length(numerator), down = 32 - bit_length(denominator);
  const uint64_t n = uint64_t{numerator} << up, d = uint64_t{denominator} << down;
  const bool whole = n >= d;
  uint64_t mantissa = ((n << (whole ? 30 : 31)) + d / 2) / d;
  int32_t exponent = down - up + (whole ? 1 : 0);
  if (mantissa >> 31 != 0) {
    mantissa >>= 1;
    ++exponent;
  }
  return {static_cast<int32_t>(mantissa), exponent};
}

extern "C" everbit_status everbit_options_init(everbit_options* options, size_t size, const everbit_program* from) {
  if (options == nullptr || from == nullptr) return EVERBIT_NULL;
  if (size < kLeastSize || size > UINT32_MAX) return EVERBIT_BAD_OPTIONS;
  Program program;
  if (const Failure failure = program_of(from, program)) return failure.status;
  constexpr int32_t kNewClasses = 50, kLatentsOfAClass = 30, kPatterns = 256;
  const int32_t bits = program.feature_tensor().bits;
  std::memset(options, 0, size);
  everbit_options o{};
  o.size = static_cast<uint32_t>(size);
  o.classes = program.known_classes() + kNewClasses;
  o.replay_slots = kNewClasses * kLatentsOfAClass;
  o.replay_per_class = kLatentsOfAClass;
  o.experience_patterns = kPatterns;
  o.batch_new = 16;
  o.batch_replayed = 64;
  o.binary_bits = 16;
  o.other_bits = bits > 16 ? bits : 16;
  o.head = EVERBIT_CWR;
  o.train_body = 1;
  o.count_replayed = 1;
  o.threads = 1;
  for (everbit_rate& rate : o.rates) rate = everbit_ratio(3, 100);
  o.rates[EVERBIT_HEAD] = everbit_ratio(1, 10);
  std::memcpy(options, &o, sizeof o);
  return EVERBIT_OK;
}
