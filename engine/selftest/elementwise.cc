// Loops over activations (kernels/elementwise).
#include "../bits.h"
#include "../kernels/elementwise/elementwise.h"
#include "affine_constants.h"
#include "draw.h"

namespace everbit::selftest {

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
  int32_t* x = draw.room.take<int32_t>(count);
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

// bits of x, bits of y, pixels, channels, shift of the slope; fills of x and the constants.
void prelu_vector(Draw& draw) {
  const int32_t x_bits = draw.parameters[0], y_bits = draw.parameters[1], pixels = draw.parameters[2], channels = draw.parameters[3];
  const size_t count = static_cast<size_t>(pixels * channels), width = static_cast<size_t>(channels);
  int16_t* x = draw.room.take<int16_t>(count);
  int32_t* y = draw.room.take<int32_t>(count);
  int32_t* pre = draw.room.take<int32_t>(width);
  int32_t* slope = draw.room.take<int32_t>(width);
  int32_t* post = draw.room.take<int32_t>(width);
  if (!draw.room.enough) return;
  write_integers(draw.first, x, x_bits, count, false);
  Numbers rest = draw.rest();
  rest.write(pre, width, INT32_MIN, INT32_MAX);
  rest.write(slope, width, -INT16_MAX, INT16_MAX);
  rest.write(post, width, INT32_MIN, INT32_MAX);
  Scale to_real, output;
  write_scale(rest, to_real, -31, 14);
  write_scale(rest, output, -31, 0);
  const int32_t x_zero_point = static_cast<int32_t>(rest.next(Numbers::bottom(x_bits), Numbers::top(x_bits)));
  const int32_t drawn = static_cast<int32_t>(rest.next(Numbers::bottom(y_bits), Numbers::top(y_bits)));
  const int32_t y_zero_point = y_bits == 32 ? 0 : drawn;
  prelu_loop({x, y, x_bits, y_bits, pixels, channels, to_real, x_zero_point, pre, slope, draw.parameters[4], post, output, y_zero_point},
             1);
  add_integers(draw.digest, y, y_bits, count);
}

// bits, count; fills of both.
void maximum_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], count = draw.parameters[1];
  const size_t size = static_cast<size_t>(count);
  int32_t* x = draw.room.take<int32_t>(size);
  int32_t* y = draw.room.take<int32_t>(size);
  if (!draw.room.enough) return;
  write_integers(draw.first, x, bits, size, false);
  Numbers rest = draw.rest();
  write_integers(rest, y, bits, size, false);
  maximum_loop({x, y, bits, count});
  add_integers(draw.digest, y, bits, size);
}

// bits, count, shift; fills of the sums and the zero point.
void shift_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], count = draw.parameters[1];
  const size_t size = static_cast<size_t>(count);
  const int64_t most = (int64_t{1} << 30) - 1;
  int32_t* sums = draw.room.take<int32_t>(size);
  int16_t* y = draw.room.take<int16_t>(size);
  if (!draw.room.enough) return;
  draw.first.write(sums, size, -most, most);
  const int32_t zero_point = static_cast<int32_t>(draw.rest().next(Numbers::bottom(bits), Numbers::top(bits)));
  shift_loop({sums, y, bits, count, draw.parameters[2], zero_point});
  add_integers(draw.digest, y, bits, size);
}

// count; fills of the image and the offset.
void image_vector(Draw& draw) {
  const int32_t count = draw.parameters[0];
  const size_t size = static_cast<size_t>(count);
  uint8_t* u = draw.room.take<uint8_t>(size);
  int16_t* y = draw.room.take<int16_t>(size);
  if (!draw.room.enough) return;
  draw.first.write(u, size, 0, UINT8_MAX);
  image_loop({u, y, count, static_cast<int32_t>(draw.rest().next(INT16_MIN, INT16_MAX))});
  draw.digest.add(y, size);
}

// width, count; fill of the parameters.
void weights_vector(Draw& draw) {
  const int32_t width = draw.parameters[0];
  const size_t size = static_cast<size_t>(draw.parameters[1]);
  int32_t* p = draw.room.take<int32_t>(size);
  int8_t* to = draw.room.take<int8_t>(size);
  if (!draw.room.enough) return;
  write_integers(draw.first, p, width, size, true);
  weights_loop({p, width, draw.parameters[1], to});
  draw.digest.add(to, size);
}

// count; fill of the weights.
void weight_sums_vector(Draw& draw) {
  const int32_t count = draw.parameters[0];
  int8_t* w = draw.room.take<int8_t>(static_cast<size_t>(count));
  if (!draw.room.enough) return;
  draw.first.write(w, static_cast<size_t>(count), INT8_MIN, INT8_MAX);
  WeightSumsCall call{w, count, 0, 0};
  weight_sums_loop(call);
  draw.digest.add(int64_t{call.sum});
  draw.digest.add(int64_t{call.magnitude});
}

}  // namespace everbit::selftest
