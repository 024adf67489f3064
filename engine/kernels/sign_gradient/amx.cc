// Four tiles of sums, two rows of places by two planes (or four rows of one plane), stay in registers over the taps of a block of 64
// channels and wait in memory between blocks; the cells of a block fit the first-level cache.
#include <immintrin.h>

#include <cstring>

#include "../sign_gemm/bit_masks.h"
#include "sign_gradient.h"

namespace everbit {
namespace {

constexpr int kRow = 64;  // bytes of a tile's row
constexpr int32_t kTile = 16 * kRow;
constexpr int32_t kTileSums = 256;

inline void begin(bool first, const int32_t* sums) {
  if (first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, kRow);
    _tile_loadd(1, sums + kTileSums, kRow);
    _tile_loadd(2, sums + 2 * kTileSums, kRow);
    _tile_loadd(3, sums + 3 * kTileSums, kRow);
  }
}

inline void end(int32_t* sums) {
  _tile_stored(0, sums, kRow);
  _tile_stored(1, sums + kTileSums, kRow);
  _tile_stored(2, sums + 2 * kTileSums, kRow);
  _tile_stored(3, sums + 3 * kTileSums, kRow);
}

// Tiles 0 and 2: low bytes of two rows of tiles; 1 and 3: high bytes.
void two_planes(const int8_t* cells, int64_t plane, const int64_t* offsets, int32_t taps, const int8_t* panel) {
  for (int32_t tap = 0; tap < taps; ++tap, panel += kGradientVectors * kPanelStep) {
    const int8_t* low = cells + offsets[tap];
    const int8_t* high = low + plane;
    _tile_loadd(4, panel, kRow);
    _tile_loadd(5, low, kRow);
    _tile_dpbusd(0, 5, 4);
    _tile_loadd(6, high, kRow);
    _tile_dpbssd(1, 6, 4);
    _tile_loadd(7, low + kTile, kRow);
    _tile_dpbusd(2, 7, 4);
    _tile_loadd(5, high + kTile, kRow);
    _tile_dpbssd(3, 5, 4);
  }
}

void one_plane(const int8_t* cells, const int64_t* offsets, int32_t taps, const int8_t* panel) {
  for (int32_t tap = 0; tap < taps; ++tap, panel += kGradientVectors * kPanelStep) {
    const int8_t* from = cells + offsets[tap];
    _tile_loadd(4, panel, kRow);
    _tile_loadd(5, from, kRow);
    _tile_dpbssd(0, 5, 4);
    _tile_loadd(6, from + kTile, kRow);
    _tile_dpbssd(1, 6, 4);
    _tile_loadd(7, from + 2 * kTile, kRow);
    _tile_dpbssd(2, 7, 4);
    _tile_loadd(5, from + 3 * kTile, kRow);
    _tile_dpbssd(3, 5, 4);
  }
}

}  // namespace

void gradient_cells_amx(const void* g, const SignGradientShape& shape, int32_t places, int8_t* cells) {
  for (int32_t block = 0; block < shape.blocks(); ++block) {
    const int32_t left = shape.channels - block * kCell;
    const __mmask64 there = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    int8_t* low = cells + int64_t{block} * shape.planes * shape.plane;
    for (int32_t p = 0; p < places; ++p, low += kCell) {
      const int64_t at = int64_t{p} * shape.channels + block * kCell;
      if (shape.planes == 1) {
        _mm512_storeu_si512(low, _mm512_maskz_loadu_epi8(there, static_cast<const int8_t*>(g) + at));
        continue;
      }
      const int16_t* from = static_cast<const int16_t*>(g) + at;
      for (int half = 0; half < 2; ++half) {
        const __m512i values = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(there >> (32 * half)), from + 32 * half);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + 32 * half), _mm512_cvtepi16_epi8(values));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + shape.plane + 32 * half), _mm512_cvtepi16_epi8(_mm512_srli_epi16(values, 8)));
      }
    }
  }
}

// Four weights of consecutive outputs make a row of a tile: their words stand side by side.
void gradient_panel_amx(const uint64_t* bits, const SignGradientShape& shape, int32_t w, int8_t* panel) {
  static constexpr Places kPlaces = places<int8_t>();
  const __m512i bit = _mm512_load_si512(kPlaces.bit);
  const __m512i minus = _mm512_set1_epi8(-1), plus = _mm512_set1_epi8(1);
  const int64_t steps = int64_t{shape.taps} * shape.words;
  for (int32_t block = 0; block < shape.blocks(); ++block) {
    for (int32_t tap = 0; tap < shape.taps; ++tap, panel += kGradientVectors * kPanelStep) {
      for (int32_t k = 0; k < kCell; k += 4) {
        const int32_t o = block * kCell + k;
        // Blocks of eight outputs are whole; what lies beyond them meets gradients of 0.
        const uint64_t* words = bits + ((o < shape.channels ? o / 8 : 0) * steps + tap * shape.words + w) * 8 + o % 8;
        const __m512i all = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)));
        for (int v = 0; v < kVectors; ++v) {
          const __m512i bytes = _mm512_permutexvar_epi8(_mm512_load_si512(kPlaces.byte[v]), all);
          const __m512i signs = _mm512_mask_blend_epi8(_mm512_test_epi8_mask(bytes, bit), minus, plus);
          _mm512_storeu_si512(panel + v * kPanelStep + k / 4 * kRow, signs);
        }
      }
    }
  }
}

void gradient_sums_amx(const int8_t* cells, const SignGradientShape& shape, const int64_t* offsets, const int8_t* panel, int32_t* room,
                       int32_t* sums) {
  const int32_t halves = shape.planes;
  const int64_t panel_block = int64_t{shape.taps} * kGradientVectors * kPanelStep;
  for (int32_t block = 0; block < shape.blocks(); ++block) {
    const int8_t* from = cells + int64_t{block} * shape.planes * shape.plane;
    for (int v = 0; v < kGradientVectors; ++v) {
      for (int32_t half = 0; half < halves; ++half) {
        int32_t* tiles = room + (v * halves + half) * 4 * kTileSums;
        const int8_t* by = panel + block * panel_block + v * kPanelStep;
        begin(block == 0, tiles);
        if (shape.planes == 2) {
          two_planes(from + half * 2 * kTile, shape.plane, offsets, shape.taps, by);
        } else {
          one_plane(from, offsets, shape.taps, by);
        }
        end(tiles);
      }
    }
  }
  for (int32_t p = 0; p < kGradientRows; ++p) {
    const int32_t tile = p / kTileRows, row = p % kTileRows * 16;
    for (int v = 0; v < kGradientVectors; ++v) {
      __m512i total;
      if (shape.planes == 2) {
        const int32_t* low = room + (v * 2 + tile / 2) * 4 * kTileSums + tile % 2 * 2 * kTileSums + row;
        total = _mm512_add_epi32(_mm512_loadu_si512(low), _mm512_slli_epi32(_mm512_loadu_si512(low + kTileSums), 8));
      } else {
        total = _mm512_loadu_si512(room + (v * 4 + tile) * kTileSums + row);
      }
      _mm512_storeu_si512(sums + p * kCell + v * 16, total);
    }
  }
}

}  // namespace everbit
