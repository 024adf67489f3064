// The shape of a convolution with ordinary weights, and the blocks its products are cut into: what both its files share.
#pragma once

#include "../kernels/int_gemm/int_gemm.h"
#include "window.h"

namespace everbit {

enum ConvolutionAttribute { kConvolutionSkew = 6, kConvolutionGroups = 7 };  // behind the window's four and the input's scale

inline Window convolution_window(const LayerRecord& layer) {
  const int32_t* a = layer.attributes;
  return {a[0], a[1], a[2], a[3], left_padding(a[3], a[kConvolutionSkew])};
}

// Images older than groups hold 0: one group.
inline int32_t convolution_groups(const LayerRecord& layer) {
  const int32_t groups = layer.attributes[kConvolutionGroups];
  return groups == 0 ? 1 : groups;
}

struct ConvolutionShape {
  Window window;
  int32_t groups;
  int32_t inputs, outputs;  // channels of one group
  int32_t patch;            // terms of one output: taps * inputs
  int32_t readers;          // terms of one input's gradient: taps * outputs

  ConvolutionShape(const Program& program, const LayerRecord& layer)
      : window(convolution_window(layer)),
        groups(convolution_groups(layer)),
        inputs(program.tensor(layer.inputs[0]).channels / groups),
        outputs(program.tensor(layer.output).channels / groups),
        patch(window.taps() * inputs),
        readers(window.taps() * outputs) {}
};

constexpr int32_t kLeastRows = 16;        // of a block: unpacked weights serve all of them
constexpr int32_t kMostRows = 64;
constexpr int32_t kBlockBytes = 1 << 15;  // of patches and sums, where that allows more than the least

// Rows of a block of `all` whose patches have `terms` values of `bytes` and whose sums are `columns`; no more than each thread's share.
inline int32_t rows_at_once(int32_t terms, size_t bytes, int32_t columns, int32_t all, int threads) {
  const int64_t row = int_gemm_stride(terms) * static_cast<int64_t>(bytes) + columns * int64_t{sizeof(int64_t)};
  int32_t rows = kBlockBytes / row < kLeastRows ? kLeastRows : static_cast<int32_t>(kBlockBytes / row);
  rows = rows > kMostRows ? kMostRows : rows;
  const int32_t share = (all + threads - 1) / threads;
  return rows > share ? share : rows;
}

// Moves the columns of one group into rows that hold all groups.
inline void spread(const int64_t* group, int32_t rows, int32_t columns, int64_t* all, int32_t channels) {
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t c = 0; c < columns; ++c) all[static_cast<int64_t>(r) * channels + c] = group[static_cast<int64_t>(r) * columns + c];
  }
}

// Memory of the backward pass (convolution_gradient.cc).
size_t convolution_gradient_scratch(const Extent&);

}  // namespace everbit
