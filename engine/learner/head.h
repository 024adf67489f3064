// The linear head: CWR* (docs/arithmetic.md, section 5) or plain rows, its logits, loss and gradients.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../layers/layer.h"
#include "memory_plan.h"

namespace everbit {

enum class HeadRule : int32_t {
  kCwr,    // consolidated weights cw, temporary weights tw an experience, mean shift and weighted average
  kPlain,  // the weights trained on stay as they are: naive fine-tuning
};

class Head {
 public:
  // nullptr, or why there cannot be a head of so many classes for mini-batches of so many patterns.
  static const char* check(const Program& program, int32_t classes, int64_t batch);

  // cw and past are kept with a saved learner; tw and the counts live for one experience.
  void plan(const Program& program, Widths widths, int32_t classes, int threads, HeadRule rule, Region& persistent, Region& fixed);
  // The rows of the classes that the program knows, and all others 0.
  void start();

  // Memory that train() and logits() need for a batch.
  static size_t scratch_bytes(const Program& program, int32_t classes, int32_t batch, int threads);

  // present: classes among the experience's patterns and the replayed ones; CWR* starts the temporary rows of all others from 0, not
  // from the consolidated ones.
  void begin_experience(const uint8_t* present);
  // counts: patterns of each class in this experience; 0: not consolidated.
  void end_experience(const uint32_t* counts);

  // Logits [batch, classes] in units of 2^-16 from the features; of the temporary weights, or of the consolidated ones.
  void logits(const void* features, int32_t batch, bool temporary, int32_t* out) const;

  // One step of the temporary weights on a batch: cross entropy over all rows. Writes the gradient of the features where
  // somebody needs it. Returns how many of the batch the logits, before the step, got right.
  int32_t train(const void* features, const uint16_t* labels, int32_t batch, Scale step, Rounding rounding,
                Gradient& feature_gradient, void* scratch);

  bool known(int32_t label) const { return past_[label] != 0; }
  uint32_t past(int32_t label) const { return past_[label]; }
  const void* consolidated() const { return cw_; }
  const void* temporary() const { return tw_; }

 private:
  Parameter rows(void* values) const;
  // A row's logit with its bias, which the program's own classes have.
  int32_t biased(int32_t logit, int32_t label) const;
  void copy_row(int32_t label, const void* from, void* to) const;
  // Logits, or other sums over all features, that are worth a thread.
  int64_t grain() const;

  Program program_;
  Widths widths_{};
  int32_t classes_ = 0;
  int threads_ = 1;
  int32_t features_ = 0;
  HeadRule rule_ = HeadRule::kCwr;
  void* cw_ = nullptr;
  void* tw_ = nullptr;
  uint32_t* past_ = nullptr;
};

// p in units of 2^-30 (docs/arithmetic.md, section 3).
void softmax(const int32_t* logits, int32_t classes, int32_t* p);

}  // namespace everbit
