// What the vectors of all kernel families share: drawing inputs, digesting outputs.
#pragma once

#include "../digest.h"
#include "vectors.h"

namespace everbit::selftest {

// Random words; all ones for the highest, all zeros for the lowest.
inline uint64_t word_of(Numbers& numbers) {
  const uint64_t word = numbers.random.next();
  return numbers.fill == Fill::kRandom ? word : numbers.fill == Fill::kHighest ? ~uint64_t{0} : 0;
}

inline void write_scale(Numbers& numbers, Scale& scale, int32_t least, int32_t most) {
  const bool negative = numbers.random.next() % 2 != 0;
  const int32_t mantissa = static_cast<int32_t>(numbers.next(int64_t{1} << 30, INT32_MAX));
  scale = {negative ? -mantissa : mantissa, static_cast<int32_t>(least + static_cast<int64_t>(numbers.random.next() %
                                                                 static_cast<uint64_t>(most - least + 1)))};
}

// Numbers of 8 or 16 bits, symmetric or not.
inline void write_integers(Numbers& numbers, void* values, int32_t bits, size_t count, bool symmetric) {
  const int64_t top = Numbers::top(bits), bottom = symmetric ? -top : Numbers::bottom(bits);
  switch (bits) {
    case 8: numbers.write(static_cast<int8_t*>(values), count, bottom, top); break;
    case 16: numbers.write(static_cast<int16_t*>(values), count, bottom, top); break;
    default: numbers.write(static_cast<int32_t*>(values), count, bottom, top);
  }
}

inline void add_integers(Digest& digest, const void* values, int32_t bits, size_t count) {
  switch (bits) {
    case 8: digest.add(static_cast<const int8_t*>(values), count); break;
    case 16: digest.add(static_cast<const int16_t*>(values), count); break;
    default: digest.add(static_cast<const int32_t*>(values), count);
  }
}

struct Draw {
  const int32_t* parameters;
  Numbers first;   // fills[0]
  Fill second;     // fills[1]
  Room& room;
  Digest& digest;

  // The rest of the draws with the second fill.
  Numbers rest() const { return {first.random, second}; }
};

// One function a family, in products.cc, maps.cc, frozen.cc, elementwise.cc and gradient.cc: draws the inputs of a vector, calls the kernel
// of the active instruction set, digests what it wrote. The comment on each says what the vector's parameters and its two fills are.
void xnor_vector(Draw&);
void sign_vector(Draw&);
void int_vector(Draw&);
void depthwise_vector(Draw&);
void affine_vector(Draw&);
void add_vector(Draw&);
void sign_bits_vector(Draw&);
void requantize_vector(Draw&);
void norm_vector(Draw&);
void magnitude_vector(Draw&);
void narrow_vector(Draw&);
void merge_vector(Draw&);
void estimator_vector(Draw&);
void channel_sum_vector(Draw&);
void norm_gradient_vector(Draw&);
void update_vector(Draw&);
void sign_convolution_vector(Draw&);
void sign_gradient_vector(Draw&);
void packed_vector(Draw&);
void short_requantize_vector(Draw&);
void epilogue_vector(Draw&);
void dot_vector(Draw&);
void prelu_vector(Draw&);
void maximum_vector(Draw&);
void shift_vector(Draw&);
void image_vector(Draw&);
void weights_vector(Draw&);
void weight_sums_vector(Draw&);
void prelu_gradient_vector(Draw&);
void mask_vector(Draw&);

}  // namespace everbit::selftest
