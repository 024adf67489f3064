// Tiles: four of sums (64 places x 16 columns), one of weights, the places' cells in the other three. A step loads five tiles for four
// products, 40 cycles of loads beside 64 of products. Cells lie side by side, so that a tile of them is one piece of 1 KiB.
#include <immintrin.h>

#include "../../bits.h"
#include "sign_convolution.h"

namespace everbit {
namespace {

struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr int kRow = 64;  // bytes of a tile's row
constexpr int32_t kTile = 16 * kRow;

// Byte b of the even, then of the odd of 16 columns' words: where each is in two vectors of eight words.
struct alignas(64) ColumnBytes {
  uint8_t even[64];
  uint8_t odd[64];

  constexpr ColumnBytes() : even(), odd() {
    for (int b = 0; b < 8; ++b) {
      for (int m = 0; m < 8; ++m) {
        const int column = 2 * m;
        even[b * 8 + m] = static_cast<uint8_t>((column < 8 ? 0 : 64) + (column % 8) * 8 + b);
        odd[b * 8 + m] = static_cast<uint8_t>((column + 1 < 8 ? 0 : 64) + ((column + 1) % 8) * 8 + b);
      }
    }
  }
};
constexpr ColumnBytes kColumnBytes;

// The panel of a step. Row k of a tile has four bits of each column, nibble k of its word: nibbles of 16 words are transposed, then spread.
struct Unpacking {
  const __m512i even_places = _mm512_load_si512(kColumnBytes.even);
  const __m512i odd_places = _mm512_load_si512(kColumnBytes.odd);
  const __m512i low = _mm512_set1_epi8(0x0f);
  const __m512i minus = _mm512_set1_epi8(-1);
  const __m512i plus = _mm512_set1_epi8(1);

  void operator()(const SignColumns& columns, int64_t from, int8_t* panel) const {
    const __m512i a = _mm512_loadu_si512(columns.first + from * 8);
    const __m512i b = columns.second == nullptr ? _mm512_setzero_si512() : _mm512_loadu_si512(columns.second + from * 8);
    const __m512i even = _mm512_permutex2var_epi8(a, even_places, b);
    const __m512i odd = _mm512_permutex2var_epi8(a, odd_places, b);
    const __m512i odd_up = _mm512_slli_epi16(_mm512_and_si512(odd, low), 4);
    const __m512i even_down = _mm512_and_si512(_mm512_srli_epi16(even, 4), low);
    alignas(64) uint64_t rows[2][8];  // of even and of odd nibbles
    _mm512_store_si512(rows[0], _mm512_or_si512(_mm512_and_si512(even, low), odd_up));
    _mm512_store_si512(rows[1], _mm512_or_si512(even_down, _mm512_andnot_si512(low, odd)));
    for (int k = 0; k < 16; ++k) {
      _mm512_storeu_si512(panel + k * kRow, _mm512_mask_blend_epi8(rows[k & 1][k >> 1], minus, plus));
    }
  }
};

template <int kTiles>
inline void zero() {
  _tile_zero(0);
  if constexpr (kTiles > 1) _tile_zero(1);
  if constexpr (kTiles > 2) _tile_zero(2);
  if constexpr (kTiles > 3) _tile_zero(3);
}

template <int kTiles>
inline void step(const int8_t* cells, const int8_t* panel) {
  _tile_loadd(4, panel, kRow);
  _tile_loadd(5, cells, kRow);
  _tile_dpbssd(0, 5, 4);
  if constexpr (kTiles > 1) {
    _tile_loadd(6, cells + kTile, kRow);
    _tile_dpbssd(1, 6, 4);
  }
  if constexpr (kTiles > 2) {
    _tile_loadd(7, cells + 2 * kTile, kRow);
    _tile_dpbssd(2, 7, 4);
  }
  if constexpr (kTiles > 3) {
    _tile_loadd(5, cells + 3 * kTile, kRow);
    _tile_dpbssd(3, 5, 4);
  }
}

template <int kTiles>
inline void store(int32_t* sums) {
  _tile_stored(0, sums, kRow);
  if constexpr (kTiles > 1) _tile_stored(1, sums + 256, kRow);
  if constexpr (kTiles > 2) _tile_stored(2, sums + 512, kRow);
  if constexpr (kTiles > 3) _tile_stored(3, sums + 768, kRow);
}

template <int kTiles>
void block(const int8_t* map, const int64_t* offsets, int32_t steps, const int8_t* panel, int32_t* sums, const Interlude& interlude) {
  InterludeCounter counter{interlude};
  zero<kTiles>();
  for (int32_t i = 0; i < steps; ++i) {
    step<kTiles>(map + offsets[i], panel + int64_t{i} * kPanelStep);
    counter.step();
  }
  store<kTiles>(sums);
}

// A few steps of the panel are unpacked ahead of the tiles that read them, while those multiply.
constexpr int32_t kAhead = 2;
constexpr int32_t kRing = 4;

template <int kTiles>
void block_once(const int8_t* map, const int64_t* offsets, const SignColumns& columns, int8_t* ring, int32_t* sums,
                const Interlude& interlude) {
  const Unpacking unpack;
  int32_t tap = 0, word = 0;
  const auto next = [&](int32_t i) {
    unpack(columns, int64_t{tap} * columns.words + word, ring + i % kRing * kPanelStep);
    if (++tap == columns.taps) {
      tap = 0;
      ++word;
    }
  };
  const int32_t steps = columns.steps();
  InterludeCounter counter{interlude};
  zero<kTiles>();
  for (int32_t i = 0; i < kAhead && i < steps; ++i) next(i);
  for (int32_t i = 0; i < steps; ++i) {
    if (i + kAhead < steps) next(i + kAhead);
    step<kTiles>(map + offsets[i], ring + i % kRing * kPanelStep);
    counter.step();
  }
  store<kTiles>(sums);
}

}  // namespace

void sign_tiles_begin_amx() {
  static const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
}

void sign_tiles_end_amx() { _tile_release(); }

void sign_cells_amx(const uint64_t* bits, int32_t channels, int32_t pixels, int64_t plane, int8_t* cells) {
  const __m512i minus = _mm512_set1_epi8(-1), plus = _mm512_set1_epi8(1);
  const int32_t words = words_for(channels);
  for (int32_t w = 0; w < words; ++w) {
    const __mmask64 there = channel_mask(channels, w);
    int8_t* to = cells + w * plane;
    for (int32_t p = 0; p < pixels; ++p) {
      const __m512i signs = _mm512_mask_blend_epi8(bits[p * words + w], minus, plus);
      _mm512_storeu_si512(to + int64_t{p} * kCell, _mm512_maskz_mov_epi8(there, signs));
    }
  }
}

void sign_panel_amx(const SignColumns& columns, int8_t* panel) {
  const Unpacking unpack;
  for (int32_t word = 0; word < columns.words; ++word) {
    for (int32_t tap = 0; tap < columns.taps; ++tap, panel += kPanelStep) unpack(columns, int64_t{tap} * columns.words + word, panel);
  }
}

void sign_sums_amx(const int8_t* map, const int64_t* offsets, int32_t steps, const int8_t* panel, int32_t places, int32_t* sums,
                   const Interlude& interlude) {
  switch ((places + 15) / 16) {
    case 4: block<4>(map, offsets, steps, panel, sums, interlude); break;
    case 3: block<3>(map, offsets, steps, panel, sums, interlude); break;
    case 2: block<2>(map, offsets, steps, panel, sums, interlude); break;
    default: block<1>(map, offsets, steps, panel, sums, interlude);
  }
}

void sign_sums_once_amx(const int8_t* map, const int64_t* offsets, const SignColumns& columns, int8_t* panel, int32_t places, int32_t* sums,
                        const Interlude& interlude) {
  switch ((places + 15) / 16) {
    case 4: block_once<4>(map, offsets, columns, panel, sums, interlude); break;
    case 3: block_once<3>(map, offsets, columns, panel, sums, interlude); break;
    case 2: block_once<2>(map, offsets, columns, panel, sums, interlude); break;
    default: block_once<1>(map, offsets, columns, panel, sums, interlude);
  }
}

}  // namespace everbit
