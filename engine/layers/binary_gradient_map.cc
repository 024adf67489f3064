#include "binary_gradient_map.h"

#include <cstring>

#include "../bits.h"
#include "../parallel.h"

namespace everbit {
namespace {

// The map of one image: its gradients and, around them, zeros, so that a window of the whole kernel lies behind every input pixel.
struct GradientMap {
  Window window;
  int32_t width, height;  // in cells
  SignGradientShape shape;

  GradientMap(const Program& program, const LayerRecord& layer, size_t bytes) : window(binary_window(layer)) {
    const TensorRecord& in = program.tensor(layer.inputs[0]);
    width = in.width + window.kernel_width - 1;
    height = in.height + window.kernel_height - 1;
    // Blocks of kGradientRows places are read to their end.
    const int64_t plane = (int64_t{width} * height + kGradientRows - 1) * kCell;
    shape = {window.taps(), program.tensor(layer.output).channels, words_for(in.channels), static_cast<int32_t>(bytes), plane};
  }

  int64_t bytes() const { return shape.blocks() * shape.planes * shape.plane; }
  int64_t panel_bytes() const { return int64_t{shape.blocks()} * shape.taps * kGradientVectors * kPanelStep; }
  // Rows above and columns left of the gradients.
  int32_t top() const { return window.kernel_height - 1 - window.top; }
  int32_t left() const { return window.kernel_width - 1 - window.left; }
};

void fill(const GradientMap& map, const TensorRecord& in, const TensorRecord& out, const uint8_t* g, int threads, int8_t* cells) {
  std::memset(cells, 0, static_cast<size_t>(map.bytes()));
  const int32_t across = out.width < in.width + map.window.left ? out.width : in.width + map.window.left;
  parallel_for(threads, out.height, kElementGrain / (out.width * out.channels), [&](int64_t first, int64_t last, int) {
    for (int64_t row = first; row < last && map.top() + row < map.height; ++row) {
      const int64_t bytes = row * out.width * out.channels * map.shape.planes;
      gradient_cells(g + bytes, map.shape, across, cells + ((map.top() + row) * map.width + map.left()) * kCell);
    }
  });
}

}  // namespace

bool gradient_suits_map(const Program& program, const LayerRecord& layer, size_t bytes) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const Window window = binary_window(layer);
  if (bytes > 2 || window.stride != 1 || in.pixels() < kGradientRows / 2) return false;
  return int64_t{in.pixels()} * 20 >= int64_t{in.width + window.kernel_width - 1} * in.height * 11;
}

GradientMapScratch::GradientMapScratch(Region& s, const Extent& extent, size_t bytes) {
  const GradientMap map(extent.program, extent.layer, bytes);
  const size_t threads = static_cast<size_t>(extent.threads);
  input_sums = s.take<int32_t>(static_cast<size_t>(extent.batch) *
                               static_cast<size_t>(extent.program.tensor(extent.layer.inputs[0]).elements()));
  cells = s.take<int8_t>(static_cast<size_t>(map.bytes()));
  panels = s.take<int8_t>(threads * static_cast<size_t>(map.panel_bytes()));
  room = s.take<int32_t>(threads * 2 * kGradientRows * kCell);
  sums = s.take<int32_t>(threads * kGradientRows * kCell);
  offsets = s.take<int64_t>(static_cast<size_t>(map.shape.taps));
}

void input_gradient_by_map(const Context& context, const GradientMapScratch& scratch, const void* g, size_t bytes) {
  const TensorRecord& in = context.input();
  const TensorRecord& out = context.output();
  const GradientMap map(context.program, context.layer, bytes);
  for (int32_t tap = 0; tap < map.shape.taps; ++tap) {
    const int32_t i = tap / map.window.kernel_width, j = tap % map.window.kernel_width;
    scratch.offsets[tap] =
        (int64_t{map.window.kernel_height - 1 - i} * map.width + map.window.kernel_width - 1 - j) * kCell;
  }
  for (int32_t image = 0; image < context.batch; ++image) {
    fill(map, in, out, static_cast<const uint8_t*>(g) + int64_t{image} * out.elements() * static_cast<int64_t>(bytes), context.threads,
         scratch.cells);
    int32_t* to_image = scratch.input_sums + int64_t{image} * in.elements();
    const int32_t cells = (in.height - 1) * map.width + in.width;
    parallel_for(context.threads, map.shape.words, 1, [&](int64_t from, int64_t until, int thread) {
      int8_t* panel = scratch.panels + thread * map.panel_bytes();
      int32_t* room = scratch.room + int64_t{thread} * 2 * kGradientRows * kCell;
      int32_t* sums = scratch.sums + int64_t{thread} * kGradientRows * kCell;
      sign_tiles_begin();
      for (int32_t w = static_cast<int32_t>(from); w < until; ++w) {
        gradient_panel(context.binary->bits, map.shape, w, panel);
        const int32_t channels = in.channels - w * 64 < 64 ? in.channels - w * 64 : 64;
        for (int32_t first = 0; first < cells; first += kGradientRows) {
          gradient_sums(scratch.cells + int64_t{first} * kCell, map.shape, scratch.offsets, panel, room, sums);
          for (int32_t cell = first; cell < cells && cell < first + kGradientRows; ++cell) {
            const int32_t row = cell / map.width, column = cell % map.width;
            if (column >= in.width) continue;
            std::memcpy(to_image + (int64_t{row} * in.width + column) * in.channels + w * 64, sums + int64_t{cell - first} * kCell,
                        static_cast<size_t>(channels) * sizeof(int32_t));
          }
        }
      }
      sign_tiles_end();
    });
  }
}

}  // namespace everbit
