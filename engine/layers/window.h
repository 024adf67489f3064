// A sliding window over height and width: the geometry that convolutions and pools share.
#pragma once

#include "layer.h"

namespace everbit {

struct Window {
  int32_t kernel_height;
  int32_t kernel_width;
  int32_t stride;
  int32_t padding;

  int32_t taps() const { return kernel_height * kernel_width; }
};

inline int32_t window_output(int32_t size, int32_t kernel, int32_t stride, int32_t padding) {
  return (size + 2 * padding - kernel) / stride + 1;
}

// nullptr, or why the window does not lead from the shape of `in` to that of `out`.
inline const char* window_check(const Window& w, const TensorRecord& in, const TensorRecord& out) {
  constexpr int32_t kMaxWindow = 255;
  if (w.kernel_height < 1 || w.kernel_height > kMaxWindow || w.kernel_width < 1 || w.kernel_width > kMaxWindow || w.stride < 1 ||
      w.stride > kMaxWindow || w.padding < 0 || w.padding >= w.kernel_height || w.padding >= w.kernel_width) {
    return "a layer's window has an impossible kernel, stride or padding";
  }
  if (in.height + 2 * w.padding < w.kernel_height || in.width + 2 * w.padding < w.kernel_width ||
      out.height != window_output(in.height, w.kernel_height, w.stride, w.padding) ||
      out.width != window_output(in.width, w.kernel_width, w.stride, w.padding)) {
    return "a layer's output shape does not follow from its window";
  }
  return nullptr;
}

// A place of a mini-batch, walked in row-major order without a division a step.
struct Place {
  int32_t image;
  int32_t row;
  int32_t column;

  Place(int32_t index, const TensorRecord& t)
      : image(index / t.pixels()), row(index % t.pixels() / t.width), column(index % t.width) {}

  void advance(const TensorRecord& t) {
    if (++column < t.width) return;
    column = 0;
    if (++row < t.height) return;
    row = 0;
    ++image;
  }
};

// Calls f(tap, pixel) for every tap of the window at output place (row, column) of an image, `pixel` the input pixel under it or
// kAbsent outside the image.
template <typename F>
void for_each_tap(const Window& w, const TensorRecord& in, int32_t row, int32_t column, F&& f) {
  int32_t tap = 0;
  for (int32_t i = 0; i < w.kernel_height; ++i) {
    const int32_t y = row * w.stride + i - w.padding;
    for (int32_t j = 0; j < w.kernel_width; ++j, ++tap) {
      const int32_t x = column * w.stride + j - w.padding;
      f(tap, y >= 0 && y < in.height && x >= 0 && x < in.width ? y * in.width + x : kAbsent);
    }
  }
}

// The transpose: calls f(tap, pixel) for every tap, `pixel` the output pixel that reads input place (row, column) through it, or
// kAbsent where there is none.
template <typename F>
void for_each_reader(const Window& w, const TensorRecord& out, int32_t row, int32_t column, F&& f) {
  int32_t tap = 0;
  for (int32_t i = 0; i < w.kernel_height; ++i) {
    const int32_t y = row + w.padding - i;
    const bool row_read = y >= 0 && y % w.stride == 0 && y / w.stride < out.height;
    for (int32_t j = 0; j < w.kernel_width; ++j, ++tap) {
      const int32_t x = column + w.padding - j;
      const bool read = row_read && x >= 0 && x % w.stride == 0 && x / w.stride < out.width;
      f(tap, read ? y / w.stride * out.width + x / w.stride : kAbsent);
    }
  }
}

}  // namespace everbit
