// Loops of the backward pass (kernels/gradient).
#include "../kernels/gradient/gradient.h"
#include "draw.h"

namespace everbit::selftest {

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

// bits, count, the three shifts; fills of the sums and of what is there before.
void merge_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0];
  const size_t count = static_cast<size_t>(draw.parameters[1]);
  int32_t* sums = draw.room.take<int32_t>(count);
  int16_t* before = draw.room.take<int16_t>(count);
  if (!draw.room.enough) return;
  draw.first.write(sums, count, -(int64_t{1} << 30), int64_t{1} << 30);
  Numbers rest = draw.rest();
  write_integers(rest, before, bits, count, true);
  merge_loop({sums, before, count, bits, draw.parameters[2], draw.parameters[3], draw.parameters[4]}, 1);
  draw.digest.add(sums, count);
}

// bits of x, bits of g, pixels, channels, 1: approximate, 2: with a bias (or both, 3); fills of x and g, and of the rest.
void estimator_vector(Draw& draw) {
  const int32_t x_bits = draw.parameters[0], g_bits = draw.parameters[1], pixels = draw.parameters[2], channels = draw.parameters[3];
  const bool approximate = draw.parameters[4] % 2 != 0, biased = draw.parameters[4] >= 2;
  const size_t count = static_cast<size_t>(pixels * channels);
  int16_t* x = draw.room.take<int16_t>(count);
  int16_t* g = draw.room.take<int16_t>(count);
  int32_t* bias = draw.room.take<int32_t>(static_cast<size_t>(channels));
  int32_t* sums = draw.room.take<int32_t>(count);
  if (!draw.room.enough) return;
  write_integers(draw.first, x, x_bits, count, false);
  write_integers(draw.first, g, g_bits, count, true);
  Numbers rest = draw.rest();
  rest.write(bias, static_cast<size_t>(channels), INT32_MIN, INT32_MAX);
  Scale to_real;
  write_scale(rest, to_real, -8, 14);
  const int32_t zero_point = static_cast<int32_t>(rest.next(Numbers::bottom(x_bits), Numbers::top(x_bits)));
  const int32_t clip = static_cast<int32_t>(rest.next(0, INT32_MAX));
  estimator_loop({x, g, x_bits, g_bits, pixels, channels, to_real, zero_point, biased ? bias : nullptr, approximate, clip, sums}, 1);
  draw.digest.add(sums, count);
}

// pixels, channels; fill of the values.
void channel_sum_vector(Draw& draw) {
  const int32_t pixels = draw.parameters[0], channels = draw.parameters[1];
  int32_t* values = draw.room.take<int32_t>(static_cast<size_t>(pixels * channels));
  int64_t* totals = draw.room.take<int64_t>(static_cast<size_t>(channels));
  if (!draw.room.enough) return;
  draw.first.write(values, static_cast<size_t>(pixels * channels), INT32_MIN, INT32_MAX);
  for (int32_t c = 0; c < channels; ++c) totals[c] = 0;
  channel_sum_loop({values, pixels, channels, totals});
  draw.digest.add(totals, static_cast<size_t>(channels));
}

// bits of g, pixels, channels; fills of g, and of xhat and F.
void norm_gradient_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], pixels = draw.parameters[1], channels = draw.parameters[2];
  const size_t count = static_cast<size_t>(pixels * channels), width = static_cast<size_t>(channels);
  int16_t* g = draw.room.take<int16_t>(count);
  int16_t* xhat = draw.room.take<int16_t>(count);
  int32_t* F = draw.room.take<int32_t>(width);
  int32_t* sums = draw.room.take<int32_t>(count);
  int64_t* gamma = draw.room.take<int64_t>(width);
  int64_t* beta = draw.room.take<int64_t>(width);
  if (!draw.room.enough) return;
  write_integers(draw.first, g, bits, count, true);
  Numbers rest = draw.rest();
  rest.write(xhat, count, INT16_MIN, INT16_MAX);
  rest.write(F, width, INT16_MIN, -INT16_MIN);
  for (size_t c = 0; c < width; ++c) gamma[c] = beta[c] = 0;
  norm_gradient_loop({g, bits, xhat, pixels, channels, F, sums, gamma, beta});
  draw.digest.add(sums, count);
  draw.digest.add(gamma, width);
  draw.digest.add(beta, width);
}

// width, count, exponent of the step, 1 for stochastic rounding; fills of the weights and the sums.
void update_vector(Draw& draw) {
  constexpr int32_t kFirst = 5;  // the number of the first weight's draw
  const int32_t width = draw.parameters[0], count = draw.parameters[1], exponent = draw.parameters[2];
  int32_t* weights = draw.room.take<int32_t>(static_cast<size_t>(count));
  int32_t* sums = draw.room.take<int32_t>(static_cast<size_t>(count));
  if (!draw.room.enough) return;
  write_integers(draw.first, weights, width, static_cast<size_t>(count), true);
  Numbers rest = draw.rest();
  rest.write(sums, static_cast<size_t>(count), INT32_MIN, INT32_MAX);
  Scale step;
  write_scale(rest, step, exponent, exponent);
  const Rounding rounding{draw.parameters[3] != 0, rest.random.next()};
  draw.digest.add(static_cast<int64_t>(update_loop({weights, width, sums, count, step, rounding, kFirst})));
  add_integers(draw.digest, weights, width, static_cast<size_t>(count));
}

// bits of x, bits of g, pixels, channels, shift; fills of x and g, and of the rest.
void prelu_gradient_vector(Draw& draw) {
  const int32_t x_bits = draw.parameters[0], g_bits = draw.parameters[1], pixels = draw.parameters[2], channels = draw.parameters[3];
  const size_t count = static_cast<size_t>(pixels * channels), width = static_cast<size_t>(channels);
  int16_t* x = draw.room.take<int16_t>(count);
  int16_t* g = draw.room.take<int16_t>(count);
  int32_t* pre = draw.room.take<int32_t>(width);
  int32_t* slope = draw.room.take<int32_t>(width);
  int32_t* sums = draw.room.take<int32_t>(count);
  int64_t* totals = draw.room.take<int64_t>(3 * width);
  if (!draw.room.enough) return;
  write_integers(draw.first, x, x_bits, count, false);
  write_integers(draw.first, g, g_bits, count, true);
  Numbers rest = draw.rest();
  rest.write(pre, width, INT32_MIN, INT32_MAX);
  rest.write(slope, width, -INT16_MAX, INT16_MAX);
  Scale to_real;
  write_scale(rest, to_real, -31, 14);
  const int32_t zero_point = static_cast<int32_t>(rest.next(Numbers::bottom(x_bits), Numbers::top(x_bits)));
  for (size_t i = 0; i < 3 * width; ++i) totals[i] = 0;
  prelu_gradient_loop({x, g, x_bits, g_bits, pixels, channels, to_real, zero_point, pre, slope, draw.parameters[4], sums, totals,
                       totals + width, totals + 2 * width});
  draw.digest.add(sums, count);
  draw.digest.add(totals, 3 * width);
}

// bits of x, bits of g, count, how far beyond the values bounds may lie; fills of x and g, and of the bounds.
void mask_vector(Draw& draw) {
  const int32_t x_bits = draw.parameters[0], g_bits = draw.parameters[1], count = draw.parameters[2];
  const size_t size = static_cast<size_t>(count);
  int32_t* x = draw.room.take<int32_t>(size);
  int16_t* g = draw.room.take<int16_t>(size);
  int16_t* values = draw.room.take<int16_t>(size);
  if (!draw.room.enough) return;
  write_integers(draw.first, x, x_bits, size, false);
  write_integers(draw.first, g, g_bits, size, true);
  Numbers rest = draw.rest();
  const int64_t beyond = draw.parameters[3];
  const int32_t low = static_cast<int32_t>(rest.next(Numbers::bottom(x_bits) - beyond, 0));
  const int32_t high = static_cast<int32_t>(rest.next(0, Numbers::top(x_bits) + beyond));
  mask_loop({x, x_bits, low, high, g, values, g_bits, count});
  add_integers(draw.digest, values, g_bits, size);
}

}  // namespace everbit::selftest
