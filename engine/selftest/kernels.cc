// One function a kernel family: draws the inputs of a vector, calls the kernel of the active instruction set, digests what it wrote.
#include "../bits.h"
#include "../kernels/elementwise/elementwise.h"
#include "../kernels/gradient/gradient.h"
#include "../kernels/int_gemm/int_gemm.h"
#include "../kernels/sign_gemm/sign_gemm.h"
#include "../kernels/xnor_gemm/xnor_gemm.h"
#include "digest.h"
#include "vectors.h"

namespace everbit::selftest {
namespace {

constexpr int64_t kMaxOffset = int64_t{1} << 29;  // |B| of an affine

// Random words; all ones for the highest, all zeros for the lowest.
uint64_t word_of(Numbers& numbers) {
  const uint64_t word = numbers.random.next();
  return numbers.fill == Fill::kRandom ? word : numbers.fill == Fill::kHighest ? ~uint64_t{0} : 0;
}

void write_scale(Numbers& numbers, Scale& scale, int32_t least, int32_t most) {
  const bool negative = numbers.random.next() % 2 != 0;
  const int32_t mantissa = static_cast<int32_t>(numbers.next(int64_t{1} << 30, INT32_MAX));
  scale = {negative ? -mantissa : mantissa, static_cast<int32_t>(least + static_cast<int64_t>(numbers.random.next() %
                                                                 static_cast<uint64_t>(most - least + 1)))};
}

// Numbers of 8 or 16 bits, symmetric or not.
void write_integers(Numbers& numbers, void* values, int32_t bits, size_t count, bool symmetric) {
  const int64_t top = Numbers::top(bits), bottom = symmetric ? -top : Numbers::bottom(bits);
  switch (bits) {
    case 8: numbers.write(static_cast<int8_t*>(values), count, bottom, top); break;
    case 16: numbers.write(static_cast<int16_t*>(values), count, bottom, top); break;
    default: numbers.write(static_cast<int32_t*>(values), count, bottom, top);
  }
}

void add_integers(Digest& digest, const void* values, int32_t bits, size_t count) {
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

// rows, K, columns; fills of A and B.
void xnor_vector(Draw& draw) {
  const int32_t rows = draw.parameters[0], K = draw.parameters[1], columns = draw.parameters[2];
  const int32_t words = words_for(K), blocks = (columns + 7) / 8;
  uint64_t* a = draw.room.take<uint64_t>(static_cast<size_t>(rows * words));
  uint64_t* b = draw.room.take<uint64_t>(static_cast<size_t>(blocks * words * 8));
  int16_t* c = draw.room.take<int16_t>(static_cast<size_t>(rows * columns));
  if (!draw.room.enough) return;
  for (int32_t i = 0; i < rows * words; ++i) a[i] = word_of(draw.first) & channel_mask(K, i % words);
  Numbers rest = draw.rest();
  for (int32_t i = 0; i < blocks * words * 8; ++i) b[i] = word_of(rest) & channel_mask(K, i / 8 % words);
  xnor_gemm(a, rows, words, b, columns, K, c);
  draw.digest.add(c, static_cast<size_t>(rows * columns));
}

// bits of a gradient, rows, length, 1 where some terms are absent; fills of the gradients and the signs.
void sign_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], rows = draw.parameters[1], length = draw.parameters[2];
  const size_t terms = static_cast<size_t>(length);
  void* g = draw.room.take<uint8_t>(static_cast<size_t>(rows) * terms * static_cast<size_t>(bits / 8));
  uint64_t* signs = draw.room.take<uint64_t>(terms);
  uint8_t* present = draw.parameters[3] == 0 ? nullptr : draw.room.take<uint8_t>(terms);
  int64_t* c = draw.room.take<int64_t>(static_cast<size_t>(rows) * 64);
  if (!draw.room.enough) return;
  write_integers(draw.first, g, bits, static_cast<size_t>(rows) * terms, true);
  Numbers rest = draw.rest();
  for (size_t i = 0; i < terms; ++i) signs[i] = word_of(rest);
  for (size_t i = 0; present != nullptr && i < terms; ++i) present[i] = static_cast<uint8_t>(rest.random.next() % 2);
  if (bits == 32) {
    sign_gemm(static_cast<const int32_t*>(g), rows, length, signs, present, c);
    draw.digest.add(c, static_cast<size_t>(rows) * 64);
    return;
  }
  int32_t* sums = reinterpret_cast<int32_t*>(c);
  if (bits == 16) {
    sign_gemm(static_cast<const int16_t*>(g), rows, length, signs, present, sums);
  } else {
    sign_gemm(static_cast<const int8_t*>(g), rows, length, signs, present, sums);
  }
  draw.digest.add(sums, static_cast<size_t>(rows) * 64);
}

// rows, length, columns; fills of A and W.
void int_vector(Draw& draw) {
  const int32_t rows = draw.parameters[0], length = draw.parameters[1], columns = draw.parameters[2];
  const int32_t stride = int_gemm_stride(length);
  int16_t* a = draw.room.take<int16_t>(static_cast<size_t>(rows * stride));
  int8_t* w = draw.room.take<int8_t>(static_cast<size_t>(columns * length));
  int64_t* c = draw.room.take<int64_t>(static_cast<size_t>(rows * columns));
  if (!draw.room.enough) return;
  for (int32_t i = 0; i < rows * stride; ++i) {
    a[i] = i % stride < length ? static_cast<int16_t>(draw.first.next(INT16_MIN, INT16_MAX)) : int16_t{0};
  }
  draw.rest().write(w, static_cast<size_t>(columns * length), INT8_MIN, INT8_MAX);
  int_gemm(a, rows, stride, length, w, columns, c);
  draw.digest.add(c, static_cast<size_t>(rows * columns));
}

struct AffineConstants {
  int16_t* A;
  int32_t* B;
  uint8_t* s;
  size_t channels;

  AffineConstants(Room& room, size_t count)
      : A(room.take<int16_t>(count)), B(room.take<int32_t>(count)), s(room.take<uint8_t>(count)), channels(count) {}

  void write(Numbers& numbers) const {
    numbers.write(A, channels, INT16_MIN, INT16_MAX);
    numbers.write(B, channels, -kMaxOffset, kMaxOffset);
    for (size_t c = 0; c < channels; ++c) s[c] = static_cast<uint8_t>(numbers.random.next() % 30);
  }
};

// bits of x, bits of y, pixels, channels; fills of x and the constants.
void affine_vector(Draw& draw) {
  const int32_t x_bits = draw.parameters[0], y_bits = draw.parameters[1], pixels = draw.parameters[2], channels = draw.parameters[3];
  const size_t count = static_cast<size_t>(pixels * channels);
  int16_t* x = draw.room.take<int16_t>(count);
  int16_t* y = draw.room.take<int16_t>(count);
  const AffineConstants constants(draw.room, static_cast<size_t>(channels));
  if (!draw.room.enough) return;
  write_integers(draw.first, x, x_bits, count, false);
  Numbers rest = draw.rest();
  constants.write(rest);
  const int32_t zero_point = static_cast<int32_t>(rest.next(Numbers::bottom(y_bits), Numbers::top(y_bits)));
  affine_loop({x, y, x_bits, y_bits, pixels, channels, constants.A, constants.B, constants.s, zero_point}, 1);
  add_integers(draw.digest, y, y_bits, count);
}

// bits of both inputs and the output, count; fills of the inputs and the constants.
void add_vector(Draw& draw) {
  const int32_t x0_bits = draw.parameters[0], x1_bits = draw.parameters[1], y_bits = draw.parameters[2], count = draw.parameters[3];
  const size_t size = static_cast<size_t>(count);
  int16_t* x0 = draw.room.take<int16_t>(size);
  int16_t* x1 = draw.room.take<int16_t>(size);
  int16_t* y = draw.room.take<int16_t>(size);
  if (!draw.room.enough) return;
  write_integers(draw.first, x0, x0_bits, size, false);
  write_integers(draw.first, x1, x1_bits, size, false);
  Numbers rest = draw.rest();
  const int64_t most = (int64_t{1} << 13) - 1;
  const int32_t A0 = static_cast<int32_t>(rest.next(-most, most)), A1 = static_cast<int32_t>(rest.next(-most, most));
  const int32_t B = static_cast<int32_t>(rest.next(-kMaxOffset, kMaxOffset)), s = static_cast<int32_t>(rest.random.next() % 30);
  const int32_t zero_point = static_cast<int32_t>(rest.next(Numbers::bottom(y_bits), Numbers::top(y_bits)));
  add_loop({x0, x1, y, x0_bits, x1_bits, y_bits, count, A0, A1, B, s, zero_point}, 1);
  add_integers(draw.digest, y, y_bits, size);
}

// bits of x, pixels, channels; fills of x and the thresholds.
void sign_bits_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], pixels = draw.parameters[1], channels = draw.parameters[2];
  const size_t count = static_cast<size_t>(pixels * channels), words = static_cast<size_t>(pixels * words_for(channels));
  int16_t* x = draw.room.take<int16_t>(count);
  int32_t* threshold = draw.room.take<int32_t>(static_cast<size_t>(channels));
  uint64_t* bit_words = draw.room.take<uint64_t>(words);
  if (!draw.room.enough) return;
  write_integers(draw.first, x, bits, count, false);
  draw.rest().write(threshold, static_cast<size_t>(channels), Numbers::bottom(bits), Numbers::top(bits));
  sign_loop({x, bits, pixels, channels, threshold, bit_words}, 1);
  draw.digest.add(bit_words, words);
}

// bits of a sum, bits of y, pixels, channels, 1 for one multiplier in all; fills of the sums and the constants.
void requantize_vector(Draw& draw) {
  const int32_t sum_bits = draw.parameters[0], y_bits = draw.parameters[1], pixels = draw.parameters[2], channels = draw.parameters[3];
  const bool one = draw.parameters[4] != 0;
  const size_t count = static_cast<size_t>(pixels * channels), scales = one ? 1 : static_cast<size_t>(channels);
  int64_t* sums = draw.room.take<int64_t>(count);
  int16_t* y = draw.room.take<int16_t>(count);
  int64_t* offset = draw.room.take<int64_t>(static_cast<size_t>(channels));
  int32_t* mantissa = draw.room.take<int32_t>(scales);
  int8_t* exponent = draw.room.take<int8_t>(scales);
  if (!draw.room.enough) return;
  draw.first.write(sums, count, Numbers::bottom(sum_bits), Numbers::top(sum_bits));
  Numbers rest = draw.rest();
  rest.write(offset, static_cast<size_t>(channels), Numbers::bottom(sum_bits), Numbers::top(sum_bits));
  for (size_t c = 0; c < scales; ++c) {
    Scale scale;
    write_scale(rest, scale, sum_bits > 31 ? -40 : -31, sum_bits > 31 ? 8 : 0);
    mantissa[c] = scale.mantissa;
    exponent[c] = static_cast<int8_t>(scale.exponent);
  }
  const int32_t zero_point = static_cast<int32_t>(rest.next(Numbers::bottom(y_bits), Numbers::top(y_bits)));
  requantize_loop({sums, y, y_bits, pixels, channels, offset, mantissa, exponent, one, zero_point}, 1);
  add_integers(draw.digest, y, y_bits, count);
}

// bits of x, bits of y, pixels, channels, 1 for an output Scale beyond the ordinary; fills of x and the constants.
void norm_vector(Draw& draw) {
  const int32_t x_bits = draw.parameters[0], y_bits = draw.parameters[1], pixels = draw.parameters[2], channels = draw.parameters[3];
  const size_t count = static_cast<size_t>(pixels * channels), width = static_cast<size_t>(channels);
  int16_t* x = draw.room.take<int16_t>(count);
  int16_t* y = draw.room.take<int16_t>(count);
  int16_t* xhat = draw.room.take<int16_t>(count);
  const AffineConstants constants(draw.room, width);
  int32_t* gamma = draw.room.take<int32_t>(width);
  int32_t* beta = draw.room.take<int32_t>(width);
  if (!draw.room.enough) return;
  write_integers(draw.first, x, x_bits, count, false);
  Numbers rest = draw.rest();
  constants.write(rest);
  rest.write(gamma, width, -INT16_MAX, INT16_MAX);
  rest.write(beta, width, INT32_MIN, INT32_MAX);
  Scale output;
  write_scale(rest, output, draw.parameters[4] != 0 ? 1 : -31, draw.parameters[4] != 0 ? 8 : 0);
  const int32_t zero_point = static_cast<int32_t>(rest.next(Numbers::bottom(y_bits), Numbers::top(y_bits)));
  norm_loop({{x, y, x_bits, y_bits, pixels, channels, constants.A, constants.B, constants.s, zero_point}, xhat, gamma, beta, output}, 1);
  draw.digest.add(xhat, count);
  add_integers(draw.digest, y, y_bits, count);
}

// count; fill of the sums.
void magnitude_vector(Draw& draw) {
  const size_t count = static_cast<size_t>(draw.parameters[0]);
  int32_t* sums = draw.room.take<int32_t>(count);
  if (!draw.room.enough) return;
  draw.first.write(sums, count, INT32_MIN, INT32_MAX);
  draw.digest.add(int64_t{magnitude_loop(sums, count, 1)});
}

// bits, count, shift; fill of the sums.
void narrow_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0];
  const size_t count = static_cast<size_t>(draw.parameters[1]);
  int32_t* sums = draw.room.take<int32_t>(count);
  int16_t* values = draw.room.take<int16_t>(count);
  if (!draw.room.enough) return;
  draw.first.write(sums, count, INT32_MIN, INT32_MAX);
  narrow_loop({sums, count, draw.parameters[2], bits, values}, 1);
  add_integers(draw.digest, values, bits, count);
}

// width, count, exponent of the step; fills of the weights and the sums.
void update_vector(Draw& draw) {
  const int32_t width = draw.parameters[0], count = draw.parameters[1], exponent = draw.parameters[2];
  int16_t* weights = draw.room.take<int16_t>(static_cast<size_t>(count));
  int32_t* sums = draw.room.take<int32_t>(static_cast<size_t>(count));
  if (!draw.room.enough) return;
  write_integers(draw.first, weights, width, static_cast<size_t>(count), true);
  Numbers rest = draw.rest();
  rest.write(sums, static_cast<size_t>(count), INT32_MIN, INT32_MAX);
  Scale step;
  write_scale(rest, step, exponent, exponent);
  draw.digest.add(static_cast<int64_t>(update_loop({weights, width, sums, count, step, Rounding{}, 0})));
  add_integers(draw.digest, weights, width, static_cast<size_t>(count));
}

// In the order of FAMILIES in tools/selftest/kernel_vectors.py.
void (*const kFamilies[])(Draw&) = {xnor_vector,       sign_vector, int_vector,       affine_vector, add_vector,   sign_bits_vector,
                                    requantize_vector, norm_vector, magnitude_vector, narrow_vector, update_vector};

}  // namespace

Outcome run_kernel(const KernelVector& vector, Room& room) {
  Digest digest;
  Draw draw{vector.parameters, {{vector.seed}, vector.fills[0]}, vector.fills[1], room, digest};
  kFamilies[vector.family](draw);
  return {room.enough, digest.value()};
}

}  // namespace everbit::selftest
