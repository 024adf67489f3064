#include "head.h"

#include <cstring>

#include "../kernels/dot/dot.h"
#include "../parallel.h"

namespace everbit {
namespace {

constexpr int kProbabilityBits = 30;
constexpr int64_t kMaxValues = int64_t{1} << 30;  // of the weights, and of the logits of a mini-batch

struct TrainScratch {
  int32_t* logits;       // batch x classes
  int32_t* gradient;     // of the logits, batch x classes; after quantizing, q_b bits each in the first part of it
  int64_t* features;     // batch x features, then threads x features

  TrainScratch(Region& region, int threads, size_t batch, size_t classes, size_t features)
      : logits(region.take<int32_t>(batch * classes)),
        gradient(region.take<int32_t>(batch * classes)),
        features(region.take<int64_t>((batch > static_cast<size_t>(threads) ? batch : static_cast<size_t>(threads)) * features)) {}
};

template <typename T>
constexpr bool kShort = sizeof(T) < sizeof(int32_t);  // products of two such numbers fit int32

// sum over k of w[k] (x[k] - zero_point).
template <typename W, typename X>
int64_t product(const W* w, const X* x, int32_t count, int32_t zero_point) {
  if constexpr (kShort<W> && kShort<X>) {
    return dot({w, 8 * sizeof(W), x, 8 * sizeof(X), count, zero_point});
  } else {
    int64_t sum = 0;
    for (int32_t k = 0; k < count; ++k) sum += gradient_product(w[k], x[k], zero_point);
    return sum;
  }
}

// to[k] += g (x[k] - zero_point).
template <typename G, typename X>
void add_product(int64_t* __restrict to, G g, const X* __restrict x, int32_t count, int32_t zero_point) {
  if constexpr (kShort<G> && kShort<X>) {
    const int64_t offset = int64_t{g} * zero_point;
    for (int32_t k = 0; k < count; ++k) to[k] += g * x[k] - offset;
  } else {
    for (int32_t k = 0; k < count; ++k) to[k] += gradient_product(g, x[k], zero_point);
  }
}

// to[k] += g w16[k], the weight as the forward pass sees it.
template <typename G, typename W>
void add_scaled(int64_t* __restrict to, G g, const W* __restrict w, int32_t count) {
  if (g == 0) return;
  constexpr int kWidth = 8 * static_cast<int>(sizeof(W));
  for (int32_t k = 0; k < count; ++k) to[k] += static_cast<int64_t>(g) * forward16(w[k], kWidth);
}

int32_t arg_max(const int32_t* values, int32_t count) {
  int32_t best = 0;
  for (int32_t j = 1; j < count; ++j) best = values[j] > values[best] ? j : best;
  return best;
}

}  // namespace

void softmax(const int32_t* logits, int32_t classes, int32_t* p) {
  constexpr int64_t kLog2E = 1549082005;  // in units of 2^-30
  const int64_t top = logits[arg_max(logits, classes)];
  int64_t sum = 0;
  for (int32_t j = 0; j < classes; ++j) {
    sum += exp2_fixed(rounding_shift((logits[j] - top) * kLog2E, 30));
  }
  for (int32_t j = 0; j < classes; ++j) {
    const uint64_t exponential = exp2_fixed(rounding_shift((logits[j] - top) * kLog2E, 30));
    p[j] = static_cast<int32_t>((exponential << kProbabilityBits) / static_cast<uint64_t>(sum));
  }
}

const char* Head::check(const Program& program, int32_t classes, int64_t batch) {
  if (classes < 1 || classes > kMaxClasses) return "the number of classes must lie between 1 and 65534";
  if (classes < program.known_classes()) return "the program knows more classes than the learner is made for";
  if (int64_t{classes} * program.feature_tensor().elements() > kMaxValues) return "the head is too large: lower the number of classes";
  if (batch > kMaxValues / classes) return "the mini-batch is too large for so many classes";
  return nullptr;
}

void Head::plan(const Program& program, Widths widths, int32_t classes, int threads, HeadRule rule, Region& persistent, Region& fixed) {
  program_ = program;
  widths_ = widths;
  classes_ = classes;
  threads_ = threads;
  features_ = program.feature_tensor().elements();
  rule_ = rule;
  const size_t bytes = stored_bytes(classes * features_, widths.non_binary);
  cw_ = persistent.take<uint8_t>(bytes);
  past_ = persistent.take<uint32_t>(static_cast<size_t>(classes));
  tw_ = fixed.take<uint8_t>(bytes);
}

void Head::start() {
  std::memset(cw_, 0, stored_bytes(classes_ * features_, widths_.non_binary));
  std::memset(past_, 0, sizeof(uint32_t) * static_cast<size_t>(classes_));
  Parameter cw = rows(cw_);
  const int32_t known = program_.known_classes();
  for (int32_t j = 0; j < known; ++j) past_[j] = static_cast<uint32_t>(program_.known_past()[j]);
  for (int32_t i = 0; i < known * features_; ++i) {
    cw.set(i, saturate_symmetric(rounding_shift(program_.known_weights()[i], 32 - cw.width), cw.width));
  }
}

size_t Head::scratch_bytes(const Program& program, int32_t classes, int32_t batch, int threads) {
  Region region;
  TrainScratch(region, threads, static_cast<size_t>(batch), static_cast<size_t>(classes),
               static_cast<size_t>(program.feature_tensor().elements()));
  return region.used;
}

Parameter Head::rows(void* values) const {
  return {ParameterKind::kHead, classes_ * features_, program_.head().range_exponent, widths_.non_binary, values, true, {}};
}

void Head::copy_row(int32_t label, const void* from, void* to) const {
  const size_t bytes = stored_bytes(features_, widths_.non_binary);
  const size_t offset = bytes * static_cast<size_t>(label);
  if (from == nullptr) {
    std::memset(static_cast<uint8_t*>(to) + offset, 0, bytes);
  } else {
    std::memcpy(static_cast<uint8_t*>(to) + offset, static_cast<const uint8_t*>(from) + offset, bytes);
  }
}

void Head::begin_experience(const uint8_t* present) {
  for (int32_t j = 0; j < classes_; ++j) copy_row(j, present[j] != 0 || rule_ == HeadRule::kPlain ? cw_ : nullptr, tw_);
}

void Head::end_experience(const uint32_t* counts) {
  const Parameter tw = rows(tw_);
  Parameter cw = rows(cw_);
  int64_t sum = 0;
  int64_t terms = 0;
  for (int32_t j = 0; j < classes_; ++j) {
    if (counts[j] == 0) continue;
    for (int32_t k = 0; k < features_; ++k) sum += tw.get(j * features_ + k);
    terms += features_;
  }
  const int64_t mean = terms == 0 ? 0 : rounding_divide(sum, terms);
  for (int32_t j = 0; j < classes_; ++j) {
    if (rule_ == HeadRule::kPlain) copy_row(j, tw_, cw_);
    if (counts[j] == 0) continue;
    if (rule_ == HeadRule::kCwr) {
      const uint64_t ratio = (uint64_t{past_[j]} << 32) / counts[j];
      const uint64_t p = integer_sqrt(ratio);  // sqrt(past / cur) in units of 2^-16
      const uint64_t weight = (p << 31) / (p + 65536);
      const int64_t alpha = weight > INT32_MAX ? INT32_MAX : static_cast<int64_t>(weight);
      for (int32_t i = j * features_; i < (j + 1) * features_; ++i) {
        const int64_t base = tw.get(i) - mean;
        const int64_t difference = saturate(cw.get(i) - base, 32);
        cw.set(i, saturate_symmetric(base + rounding_shift(difference * alpha, 31), cw.width));
      }
    }
    past_[j] = counts[j] > UINT32_MAX - past_[j] ? UINT32_MAX : past_[j] + counts[j];
  }
}

int32_t Head::biased(int32_t logit, int32_t label) const {
  return label < program_.known_classes() ? saturating_sum(logit, program_.known_bias()[label]) : logit;
}

int64_t Head::grain() const { return kElementGrain / features_ + 1; }

void Head::logits(const void* features, int32_t batch, bool temporary, int32_t* out) const {
  const TensorRecord& tensor = program_.feature_tensor();
  const Parameter w = rows(temporary ? tw_ : cw_);
  const Scale to_logit = shifted(program_.head().logit, product_shift(tensor.bits) - (widths_.non_binary - 1));
  with_activation_type(tensor.bits, [&](auto type) {
    with_gradient_type(widths_.non_binary, [&](auto element, auto) {
      const auto* x = static_cast<const decltype(type)*>(features);
      const auto* weights = static_cast<const decltype(element)*>(w.values);
      parallel_for(threads_, int64_t{batch} * classes_, grain(), [&](int64_t first, int64_t last, int) {
        for (int64_t i = first; i < last; ++i) {
          const auto* pattern = x + i / classes_ * features_;
          const auto* row = weights + i % classes_ * features_;
          const int64_t sum = product(row, pattern, features_, tensor.zero_point);
          out[i] = biased(scale(sum, to_logit), static_cast<int32_t>(i % classes_));
        }
      });
    });
  });
}

int32_t Head::train(const void* features, const uint16_t* labels, int32_t batch, Scale step, Rounding rounding,
                    Gradient& feature_gradient, void* scratch) {
  Region region{static_cast<uint8_t*>(scratch)};
  const TensorRecord& tensor = program_.feature_tensor();
  const size_t count = static_cast<size_t>(batch) * static_cast<size_t>(classes_);
  const TrainScratch room(region, threads_, static_cast<size_t>(batch), static_cast<size_t>(classes_), static_cast<size_t>(features_));
  logits(features, batch, true, room.logits);
  int32_t right = 0;
  parallel_for(threads_, batch, kElementGrain / (16 * classes_) + 1, [&](int64_t first, int64_t last, int) {
    int32_t part = 0;
    for (int64_t b = first; b < last; ++b) {
      const int32_t* row = room.logits + b * classes_;
      part += arg_max(row, classes_) == labels[b];
      softmax(row, classes_, room.gradient + b * classes_);
      room.gradient[b * classes_ + labels[b]] -= int32_t{1} << kProbabilityBits;
    }
    join_sum(right, part);
  });
  // The logits have served: their memory takes the quantized gradient.
  Gradient loss{room.logits, 0, false};
  write_gradient(loss, room.gradient, count, -kProbabilityBits, widths_.non_binary, threads_);

  Parameter w = rows(tw_);
  w.rounding = rounding_of_parameter(rounding, program_.parameter_count());  // the head's comes after those of the layers
  feature_gradient.present = false;
  with_gradient_type(widths_.non_binary, [&](auto element, auto) {
    const auto* g = static_cast<const decltype(element)*>(loss.values);
    const auto* weights = static_cast<const decltype(element)*>(w.values);
    if (feature_gradient.values != nullptr) {
      parallel_for(threads_, batch, grain() / classes_ + 1, [&](int64_t first, int64_t last, int) {
        for (int64_t b = first; b < last; ++b) {
          int64_t* to = room.features + b * features_;
          for (int32_t k = 0; k < features_; ++k) to[k] = 0;
          for (int32_t j = 0; j < classes_; ++j) {
            add_scaled(to, g[b * classes_ + j], weights + int64_t{j} * features_, features_);
          }
        }
      });
      write_gradient(feature_gradient, room.features, static_cast<size_t>(batch) * static_cast<size_t>(features_),
                     loss.exponent + w.range_exponent - 15, widths_.non_binary, threads_);
    }
    const Scale by = step * program_.head().feature;
    with_activation_type(tensor.bits, [&](auto type) {
      const auto* x = static_cast<const decltype(type)*>(features);
      const int32_t exponent = loss.exponent + product_shift(tensor.bits);
      parallel_for(threads_, classes_, grain() / batch + 1, [&](int64_t first, int64_t last, int thread) {
        int64_t* sums = room.features + int64_t{thread} * features_;
        for (int32_t j = static_cast<int32_t>(first); j < last; ++j) {
          for (int32_t k = 0; k < features_; ++k) sums[k] = 0;
          for (int32_t b = 0; b < batch; ++b) {
            add_product(sums, g[b * classes_ + j], x + int64_t{b} * features_, features_, tensor.zero_point);
          }
          for (int32_t k = 0; k < features_; k += 64) {
            update_parameters(w, j * features_ + k, features_ - k < 64 ? features_ - k : 64, sums + k, by, exponent);
          }
        }
      });
    });
  });
  return right;
}

}  // namespace everbit
