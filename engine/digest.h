// The mix64 sum: a digest of a sequence of integers v0, v1, .. that needs no table and no byte order.
//
//   mix64(n + sum over i of mix64(v_i + (i + 1) * 0x9e3779b97f4a7c15)), everything modulo 2^64, n the length.
//
// Any change of a value or of two values' order changes it, but for a chance of 2^-64. Not for use against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>

#include "random.h"

namespace everbit {

class Digest {
 public:
  void add(int64_t value) { sum_ += mix64(static_cast<uint64_t>(value) + ++count_ * 0x9e3779b97f4a7c15u); }
  template <typename T>
  void add(const T* values, size_t count) {
    for (size_t i = 0; i < count; ++i) add(static_cast<int64_t>(values[i]));
  }
  uint64_t value() const { return mix64(count_ + sum_); }

 private:
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
};

}  // namespace everbit
