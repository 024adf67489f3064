#include "pack.h"

namespace everbit {

template <typename T>
void pack_signs(const T* x, int32_t pixels, int32_t channels, const int32_t* threshold, uint64_t* words) {
  for (int32_t p = 0; p < pixels; ++p) {
    for (int32_t first = 0; first < channels; first += 64) {
      const int32_t count = channels - first < 64 ? channels - first : 64;
      uint64_t word = 0;
      for (int32_t i = 0; i < count; ++i) word |= static_cast<uint64_t>(x[i] >= threshold[first + i]) << i;
      *words++ = word;
      x += count;
    }
  }
}

template void pack_signs(const int8_t*, int32_t, int32_t, const int32_t*, uint64_t*);
template void pack_signs(const int16_t*, int32_t, int32_t, const int32_t*, uint64_t*);

}  // namespace everbit
