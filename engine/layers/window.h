// A sliding window over height and width: the geometry that convolutions and pools share.
//
// The first window starts `top` rows above and `left` columns left of the image; how many there are is the output's size, so that what
// lies below and right of the image may be padding too, as TensorFlow's "same" has it.
#pragma once

#include "layer.h"

namespace everbit {

struct Window {
  int32_t kernel_height;
  int32_t kernel_width;
  int32_t stride;
  int32_t top;
  int32_t left;

  int32_t taps() const { return kernel_height * kernel_width; }
};

// The left padding from a layer's attributes: `padding` above the image, `skew` more on its left (0 in images older than it).
inline int32_t left_padding(int32_t padding, int32_t skew) {
  return static_cast<int32_t>(static_cast<uint32_t>(padding) + static_cast<uint32_t>(skew));  // may wrap: window_check() sees it
}

// Whether `out` windows along one side read every place that needs no padding at the end, and each at least one place of the image.
inline bool valid_window_count(int32_t size, int32_t out, int32_t kernel, int32_t stride, int32_t before) {
  const int32_t whole = size + before < kernel ? 1 : (size + before - kernel) / stride + 1;
  return out >= whole && out <= (size - 1 + before) / stride + 1;
}

// nullptr, or why the window does not lead from the shape of `in` to that of `out`.
inline const char* window_check(const Window& w, const TensorRecord& in, const TensorRecord& out) {
  constexpr int32_t kMaxWindow = 255;
  if (w.kernel_height < 1 || w.kernel_height > kMaxWindow || w.kernel_width < 1 || w.kernel_width > kMaxWindow || w.stride < 1 ||
      w.stride > kMaxWindow || w.top < 0 || w.top >= w.kernel_height || w.left < 0 || w.left >= w.kernel_width) {
    return "a layer's window has an impossible kernel, stride or padding";
  }
  if (!valid_window_count(in.height, out.height, w.kernel_height, w.stride, w.top) ||
      !valid_window_count(in.width, out.width, w.kernel_width, w.stride, w.left)) {
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
    const int32_t y = row * w.stride + i - w.top;
    for (int32_t j = 0; j < w.kernel_width; ++j, ++tap) {
      const int32_t x = column * w.stride + j - w.left;
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
    const int32_t y = row + w.top - i;
    const bool row_read = y >= 0 && y % w.stride == 0 && y / w.stride < out.height;
    for (int32_t j = 0; j < w.kernel_width; ++j, ++tap) {
      const int32_t x = column + w.left - j;
      const bool read = row_read && x >= 0 && x % w.stride == 0 && x / w.stride < out.width;
      f(tap, read ? y / w.stride * out.width + x / w.stride : kAbsent);
    }
  }
}

}  // namespace everbit
