// Sums of a binary convolution straight from a map of signs, without patches, for processors that multiply tiles of bytes.
//
// The map holds a binary tensor with its border as bytes, +1, -1, or 0 where nothing is: 64 bytes (a cell) for each place and word of
// channels, [words][places][64]. With stride 1 the places under a tap, for consecutive outputs, are consecutive cells; a row's border
// stands between it and the next, so that blocks of outputs run across rows, and what is computed over a border is thrown away. A zero
// border needs no correction, since its bytes are 0.
//
// Sixteen outputs (columns) share a panel: their weights as bytes, in the order that the tiles take them, [steps][16][64]; step = word *
// taps + tap, so that the cells of one word stay in the first-level cache for all taps. Bound: |sum| <= K <= 32767
// (binary_convolution.cc), so int32 is exact.
//
// Cost: a tile instruction does 16 x 16 x 64 products in 16 cycles, three times what xor and popcount do in that time.
#pragma once

#include <cstdint>

namespace everbit {

constexpr int32_t kCell = 64;         // bytes
constexpr int32_t kPanelColumns = 16;
constexpr int32_t kTileRows = 16;     // places of a tile
constexpr int32_t kMapRows = 64;      // most places of a block of sums
constexpr int32_t kPanelStep = kPanelColumns * kCell;

// The cells of `pixels` consecutive places, whose bits are words_for(channels) words each; bytes of channels that do not exist are 0.
// plane: bytes from a place's cell of one word to that of the next.
using SignCells = void(const uint64_t* bits, int32_t channels, int32_t pixels, int64_t plane, int8_t* cells);

// Packed weights of 16 columns: two blocks of eight, [taps][words][8] each; the second may be missing (nullptr).
struct SignColumns {
  const uint64_t* first;
  const uint64_t* second;
  int32_t taps, words;

  int32_t steps() const { return taps * words; }
};

using SignPanel = void(const SignColumns& columns, int8_t* panel);

// Work for the vector units while the tiles multiply: sign_sums() does a piece of it every `every` steps.
struct Interlude {
  void (*work)(void* state);
  void* state;
  int32_t every;  // at least 1
};

// Counts the steps of one call.
struct InterludeCounter {
  const Interlude& interlude;
  int32_t left = 1;

  void step() {
    if (--left > 0) return;
    interlude.work(interlude.state);
    left = interlude.every;
  }
};

// sums[place][column] for `places` (at most kMapRows) consecutive places; offsets[step]: bytes from a place's cell to the cell that the
// step reads. Reads whole tiles: up to 15 cells behind the last place must exist, of any content. Rows of sums behind `places`, up to the
// next multiple of 16, are overwritten.
using SignSums = void(const int8_t* map, const int64_t* offsets, int32_t steps, const int8_t* panel, int32_t places, int32_t* sums,
                      const Interlude& interlude);

// The same without a panel that anyone needs later; `panel` takes pieces of it.
using SignSumsOnce = void(const int8_t* map, const int64_t* offsets, const SignColumns& columns, int8_t* panel, int32_t places,
                          int32_t* sums, const Interlude& interlude);

SignCells sign_cells_scalar;
SignCells sign_cells_amx;
SignPanel sign_panel_scalar;
SignPanel sign_panel_amx;
SignSums sign_sums_scalar;
SignSums sign_sums_amx;
SignSumsOnce sign_sums_once_amx;

// Whether any instruction set of this build has tiles: where none has, no memory is planned for maps.
#if defined(EVERBIT_HAS_AMX)
constexpr bool kTilesExist = true;
#else
constexpr bool kTilesExist = false;
#endif

// Whether the active instruction set has tiles; without them xnor_gemm() is faster.
bool sign_convolution_is_fast();

// The kernels of the active instruction set.
SignCells sign_cells;
SignPanel sign_panel;
SignSums sign_sums;
SignSumsOnce sign_sums_once;

// Between sign_tiles_begin() and sign_tiles_end() the thread's tile registers belong to sign_sums().
void sign_tiles_begin();
void sign_tiles_end();

}  // namespace everbit
