// The loops themselves. Included by one file an instruction set, which defines EVERBIT_ISA_NAME; see depthwise.h.
#include <type_traits>

#include "../../fixed_point.h"
#include "depthwise.h"

namespace everbit {
namespace EVERBIT_ISA_NAME {

constexpr int32_t kBlock = 64;  // channels whose sums stay in registers
constexpr int32_t kSmallBlock = 16;

// Calls f(first channel, count): whole blocks with a count the compiler knows, then the rest.
template <typename F>
inline void by_blocks(int32_t channels, F&& f) {
  int32_t first = 0;
  for (; first + kBlock <= channels; first += kBlock) f(first, kBlock);
  for (; first + kSmallBlock <= channels; first += kSmallBlock) f(first, kSmallBlock);
  if (first < channels) f(first, channels - first);
}

inline bool inside(int32_t at, int32_t size) { return at >= 0 && at < size; }

// One output place: the taps that lie inside the image.
template <typename X, typename Difference>
inline void place(const DepthwiseRow& call, int32_t column, int32_t first, int32_t count, Difference* sums) __attribute__((always_inline));

template <typename X, typename Difference>
inline void place(const DepthwiseRow& call, int32_t column, int32_t first, int32_t count, Difference* sums) {
  const DepthwiseShape& s = call.shape;
  const int32_t top = call.row * s.stride - s.top, left = column * s.stride - s.left, zero_point = call.zero_point;
  Difference total[kBlock] = {};
  for (int32_t i = 0; i < s.kernel_height; ++i) {
    if (!inside(top + i, s.height)) continue;
    for (int32_t j = 0; j < s.kernel_width; ++j) {
      if (!inside(left + j, s.width)) continue;
      const X* from = static_cast<const X*>(call.x) + (static_cast<int64_t>(top + i) * s.width + left + j) * s.channels + first;
      const int8_t* by = call.w + (i * s.kernel_width + j) * s.channels + first;
      for (int32_t c = 0; c < count; ++c) total[c] += (Difference{from[c]} - zero_point) * by[c];
    }
  }
  for (int32_t c = 0; c < count; ++c) sums[c] = total[c];
}

// Places from `first_column` on whose 3x3 window lies inside the image: kSmallBlock channels at a time, whose nine weights stay in
// registers; the zero point leaves at once, by the sum of the weights.
template <typename X>
void places_3x3(const DepthwiseRow& call, int32_t first_column, int32_t last_column) {
  const DepthwiseShape& s = call.shape;
  const int32_t channels = s.channels;
  const X* rows = static_cast<const X*>(call.x) + static_cast<int64_t>(call.row * s.stride - s.top) * s.width * channels;
  const int64_t row = static_cast<int64_t>(s.width) * channels;
  for (int32_t first = 0; first < channels; first += kSmallBlock) {
    int32_t by[9][kSmallBlock], start[kSmallBlock];
    for (int32_t c = 0; c < kSmallBlock; ++c) start[c] = 0;
    for (int32_t tap = 0; tap < 9; ++tap) {
      for (int32_t c = 0; c < kSmallBlock; ++c) {
        by[tap][c] = call.w[tap * channels + first + c];
        start[c] -= by[tap][c] * call.zero_point;
      }
    }
    for (int32_t column = first_column; column < last_column; ++column) {
      const X* from = rows + static_cast<int64_t>(column * s.stride - s.left) * channels + first;
      int32_t* sums = static_cast<int32_t*>(call.sums) + static_cast<int64_t>(column) * channels + first;
      int32_t total[kSmallBlock];
      for (int32_t c = 0; c < kSmallBlock; ++c) total[c] = start[c];
#pragma GCC unroll 3
      for (int32_t i = 0; i < 3; ++i) {
#pragma GCC unroll 3
        for (int32_t j = 0; j < 3; ++j) {
          for (int32_t c = 0; c < kSmallBlock; ++c) total[c] += from[i * row + j * channels + c] * by[i * 3 + j][c];
        }
      }
      for (int32_t c = 0; c < kSmallBlock; ++c) sums[c] = total[c];
    }
  }
}

template <typename X>
void row_typed(const DepthwiseRow& call) {
  using Difference = std::conditional_t<sizeof(X) == sizeof(int32_t), int64_t, int32_t>;
  const DepthwiseShape& s = call.shape;
  const int32_t top = call.row * s.stride - s.top;
  // Columns whose windows are whole.
  int32_t first = 0, last = 0;
  if constexpr (sizeof(X) != sizeof(int32_t)) {
    if (s.kernel_height == 3 && s.kernel_width == 3 && s.channels % kSmallBlock == 0 && top >= 0 && top + 3 <= s.height && s.width >= 3) {
      first = (s.left + s.stride - 1) / s.stride;
      last = (s.width - 3 + s.left) / s.stride + 1;
      last = last < s.out_width ? last : s.out_width;
      if (first < last) {
        places_3x3<X>(call, first, last);
      } else {
        last = first;
      }
    }
  }
  for (int32_t column = 0; column < s.out_width; ++column) {
    if (column == first && column < last) column = last;
    if (column >= s.out_width) break;
    Difference* sums = static_cast<Difference*>(call.sums) + static_cast<int64_t>(column) * s.channels;
    by_blocks(s.channels, [&](int32_t at, int32_t count) __attribute__((always_inline)) {
      place<X, Difference>(call, column, at, count, sums + at);
    });
  }
}

template <typename G, typename Sum>
void input_gradient_typed(const DepthwiseInputGradient& call) {
  const DepthwiseShape s = call.shape;
  const G* g = static_cast<const G*>(call.g);
  for (int32_t row = 0; row < s.height; ++row) {
    for (int32_t column = 0; column < s.width; ++column) {
      int64_t* sums = call.sums + (static_cast<int64_t>(row) * s.width + column) * s.channels;
      by_blocks(s.channels, [&](int32_t first, int32_t count) __attribute__((always_inline)) {
        Sum total[kBlock] = {};
        for (int32_t i = 0; i < s.kernel_height; ++i) {
          const int32_t y = row + s.top - i;
          if (y < 0 || y % s.stride != 0 || y / s.stride >= s.out_height) continue;
          for (int32_t j = 0; j < s.kernel_width; ++j) {
            const int32_t z = column + s.left - j;
            if (z < 0 || z % s.stride != 0 || z / s.stride >= s.out_width) continue;
            const G* from = g + (static_cast<int64_t>(y / s.stride) * s.out_width + z / s.stride) * s.channels + first;
            const int8_t* by = call.w + (i * s.kernel_width + j) * s.channels + first;
            for (int32_t c = 0; c < count; ++c) total[c] += Sum{from[c]} * by[c];
          }
        }
        for (int32_t c = 0; c < count; ++c) sums[first + c] = total[c];
      });
    }
  }
}

template <typename X, typename G, typename Product>
void weight_gradient_typed(const DepthwiseWeightGradient& call) {
  const DepthwiseShape s = call.shape;
  const X* x = static_cast<const X*>(call.x);
  const G* g = static_cast<const G*>(call.g);
  const int32_t zero_point = call.zero_point;
  for (int32_t i = 0; i < s.kernel_height; ++i) {
    for (int32_t j = 0; j < s.kernel_width; ++j) {
      int64_t* sums = call.sums + static_cast<int64_t>(i * s.kernel_width + j) * s.channels;
      by_blocks(s.channels, [&](int32_t first, int32_t count) __attribute__((always_inline)) {
        int64_t total[kBlock] = {};
        for (int32_t row = 0; row < s.out_height; ++row) {
          const int32_t y = row * s.stride - s.top + i;
          if (!inside(y, s.height)) continue;
          for (int32_t column = 0; column < s.out_width; ++column) {
            const int32_t z = column * s.stride - s.left + j;
            if (!inside(z, s.width)) continue;
            const X* from = x + (static_cast<int64_t>(y) * s.width + z) * s.channels + first;
            const G* by = g + (static_cast<int64_t>(row) * s.out_width + column) * s.channels + first;
            for (int32_t c = 0; c < count; ++c) {
              if constexpr (sizeof(X) == sizeof(int32_t)) {
                total[c] += gradient_product(by[c], from[c], zero_point);
              } else {
                total[c] += Product{by[c]} * (from[c] - zero_point);
              }
            }
          }
        }
        for (int32_t c = 0; c < count; ++c) sums[first + c] += total[c];
      });
    }
  }
}

void row(const DepthwiseRow& call) {
  switch (call.x_bits) {
    case 8: row_typed<int8_t>(call); break;
    case 16: row_typed<int16_t>(call); break;
    default: row_typed<int32_t>(call);
  }
}

void input_gradient(const DepthwiseInputGradient& call) {
  switch (call.g_bits) {
    case 8: input_gradient_typed<int8_t, int32_t>(call); break;
    case 16: input_gradient_typed<int16_t, int32_t>(call); break;
    default: input_gradient_typed<int32_t, int64_t>(call);
  }
}

template <typename X>
void weight_gradient_from(const DepthwiseWeightGradient& call) {
  switch (call.g_bits) {
    case 8: weight_gradient_typed<X, int8_t, int32_t>(call); break;
    case 16: weight_gradient_typed<X, int16_t, int32_t>(call); break;
    default: weight_gradient_typed<X, int32_t, int64_t>(call);
  }
}

void weight_gradient(const DepthwiseWeightGradient& call) {
  switch (call.x_bits) {
    case 8: weight_gradient_from<int8_t>(call); break;
    case 16: weight_gradient_from<int16_t>(call); break;
    default: weight_gradient_from<int32_t>(call);
  }
}

}  // namespace EVERBIT_ISA_NAME
}  // namespace everbit
