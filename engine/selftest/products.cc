// Products: xnor_gemm, sign_gemm, int_gemm, depthwise, packed_gemm, dot.
#include "../bits.h"
#include "../kernels/depthwise/depthwise.h"
#include "../kernels/dot/dot.h"
#include "../kernels/int_gemm/int_gemm.h"
#include "../kernels/packed_gemm/packed_gemm.h"
#include "../kernels/sign_gemm/sign_gemm.h"
#include "../kernels/xnor_gemm/xnor_gemm.h"
#include "draw.h"

namespace everbit::selftest {

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

// bits of x, bits of g, side of the kernel, stride, channels; fills of x and g, and of the weights. The image is 2 pixels wider and higher
// than the kernel, which is padded by half its side. A tensor of 32 bits has no zero point.
void depthwise_vector(Draw& draw) {
  const int32_t x_bits = draw.parameters[0], g_bits = draw.parameters[1], kernel = draw.parameters[2], stride = draw.parameters[3];
  const int32_t channels = draw.parameters[4], side = kernel + 2, out = (side + 2 * (kernel / 2) - kernel) / stride + 1;
  const DepthwiseShape shape{side, side, channels, out, out, kernel, kernel, stride, kernel / 2, kernel / 2};
  const size_t inputs = static_cast<size_t>(side * side * channels), outputs = static_cast<size_t>(out * out * channels);
  const size_t weights = static_cast<size_t>(kernel * kernel * channels);
  int32_t* x = draw.room.take<int32_t>(inputs);
  int32_t* g = draw.room.take<int32_t>(outputs);
  int8_t* w = draw.room.take<int8_t>(weights);
  int64_t* row_sums = draw.room.take<int64_t>(static_cast<size_t>(out * channels));
  int32_t* short_sums = draw.room.take<int32_t>(static_cast<size_t>(out * channels));
  int64_t* input_sums = draw.room.take<int64_t>(inputs);
  int64_t* weight_sums = draw.room.take<int64_t>(weights);
  if (!draw.room.enough) return;
  write_integers(draw.first, x, x_bits, inputs, false);
  write_integers(draw.first, g, g_bits, outputs, true);
  Numbers rest = draw.rest();
  rest.write(w, weights, INT8_MIN, INT8_MAX);
  const int32_t drawn = static_cast<int32_t>(rest.next(Numbers::bottom(x_bits), Numbers::top(x_bits)));
  const int32_t zero_point = x_bits == 32 ? 0 : drawn;
  for (int32_t row = 0; row < out; ++row) {
    void* to = x_bits == 32 ? static_cast<void*>(row_sums) : short_sums;
    depthwise_row({shape, x, x_bits, zero_point, w, row, to});
    for (int32_t i = 0; x_bits != 32 && i < out * channels; ++i) row_sums[i] = short_sums[i];
    draw.digest.add(row_sums, static_cast<size_t>(out * channels));
  }
  depthwise_input_gradient({shape, g, g_bits, w, input_sums});
  draw.digest.add(input_sums, inputs);
  for (size_t i = 0; i < weights; ++i) weight_sums[i] = 0;
  depthwise_weight_gradient({shape, x, x_bits, zero_point, g, g_bits, weight_sums});
  draw.digest.add(weight_sums, weights);
}

// bits of A, rows, segments, length of a segment, columns; fills of A and W. Rows overlap, segments lie apart; what is read behind one is
// drawn too.
void packed_vector(Draw& draw) {
  const int32_t bits = draw.parameters[0], rows = draw.parameters[1], segments = draw.parameters[2], length = draw.parameters[3];
  const int32_t columns = draw.parameters[4], stride = 3, segment_stride = rows * stride + length + 1;
  const size_t values = static_cast<size_t>((segments - 1) * segment_stride + (rows - 1) * stride + length + packed_step(bits) - 1);
  const size_t weights = static_cast<size_t>(columns) * static_cast<size_t>(segments * length);
  const size_t count = static_cast<size_t>(rows * columns);
  uint8_t* a = draw.room.take<uint8_t>(values * static_cast<size_t>(bits / 8));
  int8_t* w = draw.room.take<int8_t>(weights);
  uint32_t* packed = draw.room.take<uint32_t>(packed_words(segments, length, columns, bits));
  int32_t* c = draw.room.take<int32_t>(count);
  if (!draw.room.enough) return;
  write_integers(draw.first, a, bits, values, false);
  draw.rest().write(w, weights, INT8_MIN, INT8_MAX);
  pack_weights(w, segments, length, columns, bits, packed);
  packed_gemm({a, bits, rows, stride, segments, segment_stride, length, packed, columns, c});
  draw.digest.add(c, count);
}

// bits of w, bits of x, count; fills of w and x, and of the zero point.
void dot_vector(Draw& draw) {
  const int32_t w_bits = draw.parameters[0], x_bits = draw.parameters[1], count = draw.parameters[2];
  const size_t size = static_cast<size_t>(count);
  int16_t* w = draw.room.take<int16_t>(size);
  int16_t* x = draw.room.take<int16_t>(size);
  if (!draw.room.enough) return;
  write_integers(draw.first, w, w_bits, size, false);
  write_integers(draw.first, x, x_bits, size, false);
  const int32_t zero_point = static_cast<int32_t>(draw.rest().next(Numbers::bottom(x_bits), Numbers::top(x_bits)));
  draw.digest.add(dot({w, w_bits, x, x_bits, count, zero_point}));
}

}  // namespace everbit::selftest
