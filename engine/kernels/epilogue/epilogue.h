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

// All pointers are to the first of the columns.
struct EpilogueCall {
  const void* sums;          // places x columns, of 16 or 32 bits; all of them fit 16
  int32_t sum_bits;
  int64_t sum_stride;        // elements from a place to the next
  int32_t places, columns;
  int32_t low, high;         // clamp
  const int16_t* A;          // affine; nullptr: none, then there is neither shortcut nor y
  const int32_t* B;
  const uint8_t* s;
  int32_t affine_zero;
  int32_t bits;              // of what the affine gives, of the shortcut and of y: 8 or 16
  const void* shortcut;      // nullptr: none
  int32_t A0, A1;            // add: factors of what the affine gives and of the shortcut, below 2^13 in size
  int32_t add_B, add_s, add_zero;
  void* y;                   // nullptr: only the signs are wanted
  int64_t stride;            // of shortcut and y: elements from a place to the next
  const int32_t* threshold;  // nullptr: no sign
  uint8_t* signs;            // the byte with the first column's bit; whole bytes are written, bits of no column are 0
  int64_t sign_stride;       // bytes from a place to the next
};

using Epilogue = void(const EpilogueCall&);

Epilogue epilogue_scalar;
Epilogue epilogue_avx2;
Epilogue epilogue_avx512;
Epilogue epilogue_neon;

// The fastest kernel of the active instruction set.
Epilogue epilogue;

}  // namespace everbit
