// The sums of a binary convolution, block by block, for whoever writes or uses them: the layer itself (binary_convolution.cc) or what
// follows it in the frozen part (binary_chain.cc).
//
// Two ways to the same integers. Patches: the words under the window of each place, multiplied by xnor_gemm(). A map: the whole input as
// bytes with its border, multiplied tile by tile (kernels/sign_convolution), where the processor has tiles and the shape suits them.
#pragma once

#include "../bits.h"
#include "../kernels/sign_convolution/sign_convolution.h"
#include "../kernels/xnor_gemm/xnor_gemm.h"
#include "../memory.h"
#include "../parallel.h"
#include "binary_convolution.h"

namespace everbit {

constexpr int32_t kMaxBinaryTerms = 32767;  // K of one sum
constexpr int32_t kPatchRows = 48;          // places a block of patches, at most 64
constexpr int64_t kMapBytes = 1 << 18;      // of a map, where one image does not need more

// Sums of `places` consecutive places of the mini-batch and `channels` consecutive channels.
struct BinarySums {
  const void* sums;  // [places][stride], of `bits` bits
  int32_t bits;      // 16 or 32
  int64_t stride;
  int32_t place, places;
  int32_t channel, channels;
};

// The map of some images: cells of a word of channels, a place's border included.
struct SignMap {
  Window window;
  int32_t words;
  int32_t width, height;  // of one image, in cells
  int32_t images;         // at once
  int64_t plane;          // bytes of one word of all cells

  SignMap(const TensorRecord& in, const TensorRecord& out, const Window& w, int32_t batch)
      : window(w),
        words(words_for(in.channels)),
        width(out.width + w.kernel_width - 1),
        height(out.height + w.kernel_height - 1) {
    const int64_t image = int64_t{width} * height * kCell;
    const int64_t most = kMapBytes / (image * words);
    images = most < 1 ? 1 : most > batch ? batch : static_cast<int32_t>(most);
    plane = image * images + (kPanelColumns - 1) * kCell;  // whole tiles are read behind the last place
  }

  int64_t bytes() const { return plane * words; }
};

// Whether most of what tiles compute over a map is wanted: the rest lies over borders, in a batch also those between images. Strides skip
// cells, which tiles cannot.
inline bool suits_map(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  const Window window = binary_window(layer);
  if (window.stride != 1) return false;
  const SignMap map(in, out, window, 1);
  const int64_t computed = int64_t{map.width} * (program.learnable(layer) ? map.height : out.height);
  return int64_t{out.pixels()} * 20 >= computed * 11;
}

struct PatchesScratch {
  int32_t rows;       // places of a block
  uint64_t* patches;  // threads x rows x steps
  int16_t* block;     // threads x rows x C_out, where the sums have no memory of their own

  PatchesScratch(Region& s, const Extent& extent) {
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const size_t steps = static_cast<size_t>(binary_window(extent.layer).taps()) *
                         static_cast<size_t>(words_for(extent.program.tensor(extent.layer.inputs[0]).channels));
    const int32_t places = extent.batch * out.pixels();
    rows = places < kPatchRows ? places : kPatchRows;
    const size_t at_once = static_cast<size_t>(extent.threads) * static_cast<size_t>(rows);
    patches = s.take<uint64_t>(at_once * steps);
    block = s.take<int16_t>(extent.program.learnable(extent.layer) ? 0 : at_once * static_cast<size_t>(out.channels));
  }
};

struct MapScratch {
  int8_t* map;
  int8_t* panels;    // threads x steps x kPanelStep
  int32_t* sums;     // threads x 2 x kMapRows x kPanelColumns
  int64_t* offsets;  // steps

  MapScratch(Region& s, const Extent& extent) {
    const TensorRecord& in = extent.program.tensor(extent.layer.inputs[0]);
    const TensorRecord& out = extent.program.tensor(extent.layer.output);
    const SignMap whole(in, out, binary_window(extent.layer), extent.batch);
    const size_t threads = static_cast<size_t>(extent.threads);
    const size_t steps = static_cast<size_t>(whole.window.taps()) * static_cast<size_t>(whole.words);
    map = s.take<int8_t>(static_cast<size_t>(whole.bytes()));
    panels = s.take<int8_t>(threads * steps * kPanelStep);
    sums = s.take<int32_t>(threads * 2 * kMapRows * kPanelColumns);
    offsets = s.take<int64_t>(steps);
  }
};

// Bytes of the way that needs more: a plan must be the same whichever instruction set is taken.
inline size_t binary_sums_scratch(const Extent& extent) {
  Region by_patches, by_map;
  PatchesScratch(by_patches, extent);
  if (extent.processor.tiles && suits_map(extent.program, extent.layer)) MapScratch(by_map, extent);
  return by_patches.used > by_map.used ? by_patches.used : by_map.used;
}

// The words under the window at one output place, tap by tap; `outside` stands for a pixel beyond the image. Whether there is none.
inline bool gather_patch(const Window& window, const TensorRecord& in, const uint64_t* image, int32_t words, int32_t row, int32_t column,
                         const uint64_t* outside, uint64_t* patch) {
  const int32_t left = column * window.stride - window.left;
  const bool whole_rows = left >= 0 && left + window.kernel_width <= in.width;
  bool whole = whole_rows;
  for (int32_t i = 0; i < window.kernel_height; ++i) {
    const int32_t y = row * window.stride + i - window.top;
    const bool row_inside = y >= 0 && y < in.height;
    if (whole_rows && row_inside) {  // the pixels of a row of the window lie side by side
      const uint64_t* from = image + (y * in.width + left) * words;
      for (int32_t w = 0; w < window.kernel_width * words; ++w) *patch++ = *from++;
      continue;
    }
    whole = false;
    for (int32_t x = left; x < left + window.kernel_width; ++x) {
      const uint64_t* from = row_inside && x >= 0 && x < in.width ? image + (y * in.width + x) * words : outside;
      for (int32_t w = 0; w < words; ++w) *patch++ = *from++;
    }
  }
  return whole;
}

// The bits of a place beyond the image, where it is +1 or -1.
struct BinaryBorder {
  uint64_t bits[kMaxBinaryTerms / 64 + 1];  // K holds at least one tap

  BinaryBorder(const TensorRecord& in, int32_t pad_value) {
    for (int32_t w = 0; w < words_for(in.channels); ++w) bits[w] = pad_value == 1 ? channel_mask(in.channels, w) : 0;
  }
};

// Blocks of places with all channels. They are written to `all`, the whole tensor, or where that is nullptr to the scratch.
template <typename F>
void sums_by_patches(const Context& context, const PatchesScratch& room, int16_t* all, const F& make_user) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const Window window = binary_window(context.layer);
  const int32_t pad_value = context.layer.attributes[kBinaryPadValue];
  const int32_t words = words_for(in.channels);
  const int32_t steps = window.taps() * words;
  const BinaryWeights& weights = *context.binary;
  const BinaryBorder outside(in, pad_value);
  const int32_t places = context.batch * out.pixels();
  const uint64_t* x = context.input_values<uint64_t>();
  parallel_for(context.threads, (places + room.rows - 1) / room.rows, 1, [&](int64_t from_block, int64_t to_block, int thread) {
    auto use = make_user();
    uint64_t* patches = room.patches + static_cast<size_t>(thread) * static_cast<size_t>(room.rows * steps);
    for (int32_t first = static_cast<int32_t>(from_block) * room.rows; first < to_block * room.rows && first < places;
         first += room.rows) {
      const int32_t rows = places - first < room.rows ? places - first : room.rows;
      int16_t* block = all != nullptr ? all + static_cast<size_t>(first) * static_cast<size_t>(out.channels)
                                      : room.block + static_cast<size_t>(thread * room.rows) * static_cast<size_t>(out.channels);
      Place place(first, out);
      uint64_t borders = 0;  // a bit for each row: part of its window lies beyond the image
      for (int32_t r = 0; r < rows; ++r, place.advance(out)) {
        const uint64_t* image = x + static_cast<size_t>(place.image) * static_cast<size_t>(in.pixels() * words);
        const bool whole = gather_patch(window, in, image, words, place.row, place.column, outside.bits, patches + r * steps);
        borders |= uint64_t{!whole} << r;
      }
      xnor_gemm(patches, rows, steps, weights.bits, out.channels, window.taps() * in.channels, block);
      for (; pad_value == 0 && borders != 0; borders &= borders - 1) {
        const int32_t r = __builtin_ctzll(borders);
        const Place border(first + r, out);
        for_each_tap(window, in, border.row, border.column, [&](int32_t tap, int32_t pixel) {
          if (pixel != kAbsent) return;
          const int16_t* sums = weights.tap_sums + tap * out.channels;
          int16_t* row = block + r * out.channels;
          for (int32_t o = 0; o < out.channels; ++o) row[o] = static_cast<int16_t>(row[o] + sums[o]);
        });
      }
      use({block, 16, out.channels, first, rows, 0, out.channels});
    }
  });
}

// Fills the map with `count` images from `image` on.
void fill_map(const Context& context, const SignMap& map, const uint64_t* image, int32_t count, int8_t* cells);

constexpr int32_t kPiece = 16;  // places used at a time, while tiles multiply

// Sums of consecutive cells of a map, to be used piece by piece: runs of places of one row.
template <typename User>
class CellSums {
 public:
  CellSums(User use, const SignMap& map, const TensorRecord& out, int32_t image) : use_(use), map_(map), out_(out), image_(image) {}

  // Takes sums of the cells from `first` to `end`, of one block of channels.
  void take(const int32_t* sums, int32_t first, int32_t end, int32_t channel, int32_t channels) {
    sums_ = sums;
    channel_ = channel;
    channels_ = channels;
    left_ = end - first;
    const int32_t row = first / map_.width;
    column_ = first % map_.width;
    row_ = row % map_.height;
    place_ = (image_ + row / map_.height) * out_.pixels();  // the next place: behind the border, where it begins in one
    place_ += row_ < out_.height ? row_ * out_.width + (column_ < out_.width ? column_ : out_.width) : out_.pixels();
  }

  void next() {
    if (left_ > 0 && (column_ >= out_.width || row_ >= out_.height)) skip_border();
    if (left_ <= 0) return;
    int32_t places = out_.width - column_;
    places = places < kPiece ? places : kPiece;
    places = places < left_ ? places : left_;
    use_({sums_, 32, kPanelColumns, place_, places, channel_, channels_});
    advance(places);
    place_ += places;
  }

  void finish() {
    while (left_ > 0) next();
  }

  static void work(void* state) { static_cast<CellSums*>(state)->next(); }

 private:
  void advance(int32_t cells) {
    sums_ += int64_t{cells} * kPanelColumns;
    column_ += cells;
    left_ -= cells;
  }

  // Behind the places of a row, and behind the rows of an image, which the next image's follow.
  void skip_border() {
    int32_t cells = map_.width - column_;
    for (++row_; row_ >= out_.height && row_ < map_.height; ++row_) cells += map_.width;
    if (row_ >= map_.height) row_ = 0;
    advance(cells);
    column_ = 0;
  }

  User use_;
  const SignMap& map_;
  const TensorRecord& out_;
  int32_t image_;  // the first one of the map
  const int32_t* sums_ = nullptr;
  int32_t channel_ = 0, channels_ = 0;
  int32_t left_ = 0;  // cells
  int32_t row_ = 0, column_ = 0;
  int32_t place_ = 0;
};

// Panels of 16 channels, each over all places of the map. The sums of one block are used while the tiles make those of the next.
template <typename F>
void sums_by_map(const Context& context, const MapScratch& room, const F& make_user) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const SignMap map(in, out, binary_window(context.layer), context.batch);
  const int32_t steps = map.window.taps() * map.words;
  for (int32_t tap = 0; tap < map.window.taps(); ++tap) {
    const int64_t cell = int64_t{tap / map.window.kernel_width} * map.width + tap % map.window.kernel_width;
    for (int32_t w = 0; w < map.words; ++w) room.offsets[w * map.window.taps() + tap] = w * map.plane + cell * kCell;
  }
  const uint64_t* x = context.input_values<uint64_t>();
  const int32_t blocks = (out.channels + 7) / 8;
  for (int32_t image = 0; image < context.batch; image += map.images) {
    const int32_t count = context.batch - image < map.images ? context.batch - image : map.images;
    fill_map(context, map, x + static_cast<size_t>(image) * static_cast<size_t>(in.pixels() * map.words), count, room.map);
    const int32_t cells = (count - 1) * map.width * map.height + (out.height - 1) * map.width + out.width;
    // Runs of nearly one length: a short one would wait for its tiles.
    const int32_t tiles = (cells + kTileRows - 1) / kTileRows;
    const int32_t runs = (cells + kMapRows - 1) / kMapRows;
    parallel_for(context.threads, (blocks + 1) / 2, 1, [&](int64_t from, int64_t to, int thread) {
      int8_t* panel = room.panels + int64_t{thread} * steps * kPanelStep;
      int32_t* sums = room.sums + int64_t{thread} * 2 * kMapRows * kPanelColumns;
      using Sums = CellSums<decltype(make_user())>;
      Sums made(make_user(), map, out, image);
      const Interlude interlude{Sums::work, &made, steps * kPiece > kMapRows ? steps * kPiece / kMapRows : 1};
      int32_t turn = 0;
      sign_tiles_begin();
      for (int32_t n = static_cast<int32_t>(from); n < to; ++n) {
        const uint64_t* first = context.binary->bits + int64_t{2 * n} * steps * 8;
        const SignColumns columns{first, 2 * n + 1 < blocks ? first + int64_t{steps} * 8 : nullptr, map.window.taps(), map.words};
        if (runs > 1) sign_panel(columns, panel);
        for (int32_t run = 0; run < runs; ++run, turn ^= 1) {
          const int32_t cell = static_cast<int32_t>(int64_t{tiles} * run / runs) * kTileRows;
          const int32_t next_cell = static_cast<int32_t>(int64_t{tiles} * (run + 1) / runs) * kTileRows;
          const int32_t end = next_cell < cells ? next_cell : cells;
          int32_t* block = sums + turn * kMapRows * kPanelColumns;
          if (runs > 1) {
            sign_sums(room.map + int64_t{cell} * kCell, room.offsets, steps, panel, end - cell, block, interlude);
          } else {
            sign_sums_once(room.map, room.offsets, columns, panel, cells, block, interlude);
          }
          made.finish();
          const int32_t channel = n * kPanelColumns;
          made.take(block, cell, end, channel, out.channels - channel < kPanelColumns ? out.channels - channel : kPanelColumns);
        }
      }
      sign_tiles_end();
      made.finish();
    });
  }
}

// Calls users for blocks that cover the output; each thread has one of its own, from make_user(), to be called as use(BinarySums). all:
// where 16-bit sums of the whole tensor may be left, or nullptr.
template <typename F>
void for_each_binary_sums(const Context& context, int16_t* all, const F& make_user) {
  Region scratch{static_cast<uint8_t*>(context.scratch)};
  if (kTilesExist && sign_convolution_is_fast() && suits_map(context.program, context.layer)) {
    sums_by_map(context, MapScratch(scratch, extent_of(context)), make_user);
  } else {
    sums_by_patches(context, PatchesScratch(scratch, extent_of(context)), all, make_user);
  }
}

}  // namespace everbit
