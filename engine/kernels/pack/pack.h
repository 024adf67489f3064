// Comparison and packing: bit c of a pixel is [x[c] >= threshold[c]].
//
// x: pixels x channels. words: pixels x words_for(channels), written whole; unused bits are 0.
#pragma once

#include <cstdint>

namespace everbit {

template <typename T>
void pack_signs(const T* x, int32_t pixels, int32_t channels, const int32_t* threshold, uint64_t* words);

}  // namespace everbit
