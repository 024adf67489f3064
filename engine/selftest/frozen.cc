// What follows the sums of the frozen part's convolutions: epilogue, short_requantize.
#include "../bits.h"
#include "../kernels/epilogue/epilogue.h"
#include "../kernels/requantize/requantize.h"
#include "affine_constants.h"
#include "draw.h"

namespace everbit::selftest {

// bits of the values, bits of a sum, what follows (1 clamp, 2 affine, 4 add, 8 sign, 16 values kept; 32: constants under which few values
// saturate), places, channels; fills of sums and shortcut, and of the constants.
void epilogue_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], sum_bits = draw.parameters[1], follows = draw.parameters[2];
  const int32_t places = draw.parameters[3], channels = draw.parameters[4];
  const bool clamps = follows & 1, has_affine = follows & 2, adds = follows & 4, signs = follows & 8, keeps = follows & 16;
  const size_t count = static_cast<size_t>(places * channels), width = static_cast<size_t>(channels);
  const size_t words = static_cast<size_t>(places * words_for(channels));
  int32_t* sums = draw.room.take<int32_t>(count);
  int16_t* shortcut = draw.room.take<int16_t>(count);
  int16_t* y = draw.room.take<int16_t>(count);
  const AffineConstants affine(draw.room, width);
  int32_t* threshold = draw.room.take<int32_t>(width);
  uint64_t* bit_words = draw.room.take<uint64_t>(words);
  if (!draw.room.enough) return;
  if (sum_bits == 16) {
    write_integers(draw.first, sums, 16, count, false);
  } else {
    draw.first.write(sums, count, INT16_MIN, INT16_MAX);
  }
  write_integers(draw.first, shortcut, bits, count, false);
  Numbers rest = draw.rest();
  affine.write(rest);
  EpilogueLayers layers;
  layers.bits = bits;
  const int32_t low = static_cast<int32_t>(rest.next(INT16_MIN - 1, 0)), high = static_cast<int32_t>(rest.next(0, INT16_MAX + 1));
  const auto zero_point = [&] { return static_cast<int32_t>(rest.next(Numbers::bottom(bits), Numbers::top(bits))); };
  layers.affine_zero = zero_point();
  layers.add_zero = zero_point();
  const int64_t most = (int64_t{1} << 13) - 1;
  layers.A0 = static_cast<int32_t>(rest.next(-most, most));
  layers.A1 = static_cast<int32_t>(rest.next(-most, most));
  layers.add_B = static_cast<int32_t>(rest.next(-kMaxOffset, kMaxOffset));
  layers.add_s = static_cast<int32_t>(rest.random.next() % 30);
  rest.write(threshold, width, -(int64_t{1} << bits), int64_t{1} << bits);
  if (follows & 32) {
    for (size_t c = 0; c < width; ++c) {
      affine.A[c] = static_cast<int16_t>(affine.A[c] >> 6);
      affine.B[c] >>= 16;
      affine.s[c] = static_cast<uint8_t>(8 + affine.s[c] % 8);
    }
    layers.A0 >>= 4;
    layers.A1 >>= 4;
    layers.add_B >>= 14;
    layers.add_s = 6 + layers.add_s % 8;
  }
  if (clamps) {
    layers.low = low;
    layers.high = high;
  }
  if (has_affine) {
    layers.A = affine.A;
    layers.B = affine.B;
    layers.s = affine.s;
  }
  layers.add = adds;
  if (signs) layers.threshold = threshold;
  for (size_t i = 0; i < words; ++i) bit_words[i] = ~uint64_t{0};  // bytes of no column are not written
  const int64_t sign_stride = int64_t{words_for(channels)} * 8;
  for (int32_t c = 0; c < channels; c += kEpilogueColumns) {
    EpilogueColumns columns;
    columns.take(layers, c, channels - c < kEpilogueColumns ? channels - c : kEpilogueColumns);
    epilogue(columns, {element_at(sums, c, sum_bits), sum_bits, channels, places, element_at(shortcut, c, bits),
                       keeps ? element_at(y, c, bits) : nullptr, channels, reinterpret_cast<uint8_t*>(bit_words) + c / 8, sign_stride});
  }
  if (keeps) add_integers(draw.digest, y, bits, count);
  if (signs) draw.digest.add(bit_words, words);
}

// bits of y, pixels, channels, 1 for one multiplier in all, its exponent or 1 for any; fills of the sums and the constants.
void short_requantize_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], pixels = draw.parameters[1], channels = draw.parameters[2], exponents = draw.parameters[4];
  const bool one = draw.parameters[3] != 0;
  const size_t count = static_cast<size_t>(pixels * channels), width = static_cast<size_t>(channels), scales = one ? 1 : width;
  constexpr int64_t kHalf = int64_t{1} << 30;  // a sum and its offset together: 2^31 - 1 in size
  int32_t* sums = draw.room.take<int32_t>(count);
  int16_t* y = draw.room.take<int16_t>(count);
  int32_t* offset = draw.room.take<int32_t>(width);
  int32_t* mantissa = draw.room.take<int32_t>(scales);
  int8_t* exponent = draw.room.take<int8_t>(scales);
  if (!draw.room.enough) return;
  draw.first.write(sums, count, -kHalf, kHalf);
  Numbers rest = draw.rest();
  rest.write(offset, width, 1 - kHalf, kHalf - 1);
  for (size_t c = 0; c < scales; ++c) {
    Scale scale;
    write_scale(rest, scale, exponents > 0 ? -31 : exponents, exponents > 0 ? 0 : exponents);
    mantissa[c] = scale.mantissa;
    exponent[c] = static_cast<int8_t>(scale.exponent);
  }
  const int32_t zero_point = static_cast<int32_t>(rest.next(Numbers::bottom(bits), Numbers::top(bits)));
  short_requantize({sums, y, bits, pixels, channels, offset, mantissa, exponent, one, zero_point});
  add_integers(draw.digest, y, bits, count);
}

}  // namespace everbit::selftest
