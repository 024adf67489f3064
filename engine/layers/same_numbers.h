// Layers whose output has the width, zero point and channels of their input: pools and clamps.
#pragma once

#include "layer.h"

namespace everbit {

inline const char* same_numbers_check(const Program& program, const LayerRecord& layer) {
  const TensorRecord& in = program.tensor(layer.inputs[0]);
  const TensorRecord& out = program.tensor(layer.output);
  if (in.bits == 1 || in.bits != out.bits || in.zero_point != out.zero_point || in.channels != out.channels) {
    return "a pool or clamp changes channels, width or zero point, or reads single bits";
  }
  return nullptr;
}

}  // namespace everbit
