// What follows the sums of a binary convolution in the frozen part, in one pass over a block of them: clamp, affine, shortcut (add) and
// sign, by the rules of docs/arithmetic.md, as kernels/elementwise and the layers compute them one by one.
//
// A block is some places and up to kEpilogueColumns channels, whose constants stay in registers while the places pass. Bounds: those of
// affine and add, sums of 16-bit products and constants that fit int32.
//
// Cost, AVX-512: some 28 instructions for 16 values where all four follow; one by one they take 40 and store three times as much.
#pragma once

#include <cstdint>

namespace everbit {

constexpr int32_t kEpilogueColumns = 16;

// What the layers do, with their constants for the whole tensor.
struct EpilogueLayers {
  int32_t low = INT16_MIN, high = INT16_MAX;  // clamp
  const int16_t* A = nullptr;                 // affine; nullptr: none, then there is neither shortcut nor y
  const int32_t* B = nullptr;
  const uint8_t* s = nullptr;
  int32_t affine_zero = 0;
  int32_t bits = 16;                          // of what the affine gives, of the shortcut and of y: 8 or 16
  bool add = false;
  int32_t A0 = 0, A1 = 0;                     // factors of what the affine gives and of the shortcut, below 2^13 in size
  int32_t add_B = 0, add_s = 0, add_zero = 0;
  const int32_t* threshold = nullptr;         // nullptr: no sign
};

// A rounding right shift of v + B, half away from zero: (m - [m < negative]) >> shift with m = v + add. add holds B and half a unit; v + B
// is negative where m is below the half, and nothing is subtracted where the shift is 0.
struct EpilogueRounding {
  int32_t add, negative, shift;

  EpilogueRounding() = default;
  EpilogueRounding(int32_t B, int32_t s) : add(B + ((int32_t{1} << s) >> 1)), negative(s > 0 ? add - B : INT32_MIN), shift(s) {}
};

// Constants of some columns as the kernels take them, one number a column.
struct alignas(64) EpilogueColumns {
  int16_t A[kEpilogueColumns][2];  // and 0, so that a product of pairs is that of A
  int32_t add[kEpilogueColumns];
  int32_t negative[kEpilogueColumns];
  int32_t shift[kEpilogueColumns];
  int32_t threshold[kEpilogueColumns];  // from the lowest value to one above the highest
  int32_t count;
  int32_t low, high;
  int32_t affine_zero;
  int32_t bits;
  bool affine, adds, sign;
  int32_t A0, A1;
  int32_t add_B, add_s, add_zero;

  // The columns from `first` on; those that do not exist are zeros.
  void take(const EpilogueLayers& layers, int32_t first, int32_t number);
};

// All pointers are to the first of the columns.
struct EpilogueRows {
  const void* sums;      // places x columns, of 16 or 32 bits; all of them fit 16
  int32_t sum_bits;
  int64_t sum_stride;    // elements from a place to the next
  int32_t places;
  const void* shortcut;  // where there is one
  void* y;               // nullptr: only the signs are wanted
  int64_t stride;        // of shortcut and y: elements from a place to the next
  uint8_t* signs;        // the byte with the first column's bit; whole bytes are written, bits of no column are 0
  int64_t sign_stride;   // bytes from a place to the next
};

using Epilogue = void(const EpilogueColumns&, const EpilogueRows&);

Epilogue epilogue_scalar;
Epilogue epilogue_avx2;
Epilogue epilogue_avx512;
Epilogue epilogue_neon;

// The fastest kernel of the active instruction set.
Epilogue epilogue;

}  // namespace everbit
