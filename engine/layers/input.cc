// The image: bytes to signed integers around the data set's mean, out = 2 u - offset, exact.
#include "../kernels/elementwise/elementwise.h"
#include "../parallel.h"
#include "layers.h"

namespace everbit {

const char* input_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& out = program.tensor(layer.output);
  if (out.bits != 16 || out.zero_point != 0) return "the input layer must write 16 bits with zero point 0";
  if (layer.arrays[0].bytes != out.channels * 2) return "the input layer needs one offset a channel";
  return nullptr;
}

void input_forward(const Context& context) {
  const TensorRecord& out = context.output();
  const int16_t* offset = context.program.array<int16_t>(context.layer, 0);
  parallel_for(context.threads, context.batch * out.pixels(), kElementGrain / out.channels, [&](int64_t first, int64_t last, int) {
    const uint8_t* u = context.images + first * out.channels;
    int16_t* y = context.output_values<int16_t>() + first * out.channels;
    bool one_offset = true;
    for (int32_t c = 1; c < out.channels; ++c) one_offset = one_offset && offset[c] == offset[0];
    if (one_offset) {
      image_loop({u, y, static_cast<int32_t>(last - first) * out.channels, offset[0]});
      return;
    }
    for (int64_t p = first; p < last; ++p) {
      for (int32_t c = 0; c < out.channels; ++c) *y++ = static_cast<int16_t>(saturate(2 * *u++ - offset[c], 16));
    }
  });
}

}  // namespace everbit
