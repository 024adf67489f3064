// The geometry of a layer's window in the depthwise kernels' words.
#pragma once

#include "../kernels/depthwise/depthwise.h"
#include "window.h"

namespace everbit {

inline DepthwiseShape depthwise_shape(const Window& w, const TensorRecord& in, const TensorRecord& out) {
  return {in.height, in.width, in.channels, out.height, out.width, w.kernel_height, w.kernel_width, w.stride, w.top, w.left};
}

}  // namespace everbit
