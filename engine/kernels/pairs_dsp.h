// The DSP instructions of Cortex-M4, M7, M33 and M55: two products of 16-bit numbers a step, their halves in one register.
#pragma once

#include <arm_acle.h>

#include <cstdint>
#include <cstring>

namespace everbit {
namespace {

// Four numbers in a row as two pairs, the first in the low half.
struct Pairs {
  uint32_t low;
  uint32_t high;
};

inline Pairs load_pairs(const int16_t* from) {
  Pairs pairs;
  std::memcpy(&pairs, from, sizeof pairs);
  return pairs;
}

inline Pairs load_pairs(const int8_t* from) {
  uint32_t bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  const uint32_t even = __sxtb16(bytes), odd = __sxtb16(bytes >> 8 | bytes << 24);
  return {(even & 0xffff) | (odd << 16), (even >> 16) | (odd & 0xffff0000)};
}

}  // namespace
}  // namespace everbit
