// Matrix products: xnor_gemm, sign_gemm, int_gemm.
#include "../bits.h"
#include "../kernels/int_gemm/int_gemm.h"
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

}  // namespace everbit::selftest
