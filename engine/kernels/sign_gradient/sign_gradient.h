// The gradient of a binary convolution's input straight from a map of the output's gradients, without patches, for processors that
// multiply tiles of bytes; the counterpart of kernels/sign_convolution.
//
// The map holds the gradients, with a border of zeros, as planes of bytes: 8-bit ones as they are, 16-bit ones as g = 256 high + low with a
// signed high and an unsigned low byte. A cell is 64 bytes: one plane of 64 channels of one place, [blocks of 64 channels][planes][places].
// At stride 1 the cells under a tap, for consecutive places, are consecutive.
//
// A panel holds the weights of 64 input channels (one word) as bytes +1 or -1, in the order the tiles take them:
// [blocks][taps][4 vectors of 16 columns][16][64].
//
// Bound: sums of K <= 32767 gradients of 15 bits and a sign fit int32; those of a plane are smaller.
#pragma once

#include <cstdint>

#include "../sign_convolution/sign_convolution.h"

namespace everbit {

constexpr int32_t kGradientVectors = 4;  // of kPanelColumns input channels, a word of them
constexpr int32_t kGradientRows = 64;    // places at once

inline int32_t gradient_planes(int32_t bits) { return bits / 8; }

// Sizes of a map and the packed weights it meets.
struct SignGradientShape {
  int32_t taps;
  int32_t channels;  // of the output, whose gradients these are
  int32_t words;     // of the input's channels
  int32_t planes;    // 1 or 2
  int64_t plane;     // bytes of a plane of 64 channels

  int32_t blocks() const { return (channels + kCell - 1) / kCell; }
};

// The cells of `places` consecutive places, g: places x channels of 8 * planes bits; channels that do not exist become 0.
using GradientCells = void(const void* g, const SignGradientShape& shape, int32_t places, int8_t* cells);

// The panel of word `w` of the input's channels. bits: [channels / 8][taps][words][8], as the program has them.
using GradientPanel = void(const uint64_t* bits, const SignGradientShape& shape, int32_t w, int8_t* panel);

// sums[place][64] for kGradientRows consecutive places, whose cells must exist, of any content; offsets[tap]: bytes from a place's cell to
// the one that the tap reads. room: 2 * kGradientRows * 64 numbers.
using GradientSums = void(const int8_t* cells, const SignGradientShape& shape, const int64_t* offsets, const int8_t* panel, int32_t* room,
                          int32_t* sums);

GradientCells gradient_cells_scalar;
GradientCells gradient_cells_amx;
GradientPanel gradient_panel_scalar;
GradientPanel gradient_panel_amx;
GradientSums gradient_sums_scalar;
GradientSums gradient_sums_amx;

// The kernels of the active instruction set; sign_convolution_is_fast() says whether they are faster than sign_gemm(), and
// gradient_sums() needs sign_tiles_begin().
GradientCells gradient_cells;
GradientPanel gradient_panel;
GradientSums gradient_sums;

}  // namespace everbit
