// From a number of bits to a type.
#pragma once

#include <cstdint>

namespace everbit {

// Calls f with a value of the type that has 8 or 16 bits.
template <typename F>
static inline void with_short_type(int32_t bits, F&& f) {
  if (bits == 8) {
    f(int8_t{});
  } else {
    f(int16_t{});
  }
}

// Calls f with a value of the element type of an 8, 16 or 32-bit tensor.
template <typename F>
static inline void with_activation_type(int32_t bits, F&& f) {
  if (bits == 32) {
    f(int32_t{});
  } else {
    with_short_type(bits, f);
  }
}

}  // namespace everbit
