// The gradient of a binary convolution's input by a map of its output's gradients (kernels/sign_gradient), where the shape suits it; the
// other way, by patches, stands in binary_convolution_gradient.cc.
#pragma once

#include "../kernels/sign_gradient/sign_gradient.h"
#include "../memory.h"
#include "binary_convolution.h"

namespace everbit {

// Whether most of what tiles compute over a map is wanted; bytes: of a gradient.
bool gradient_suits_map(const Program&, const LayerRecord&, size_t bytes);

constexpr int32_t kMapImages = 4;  // most images of a mini-batch: each unpacks the weights anew

struct GradientMapScratch {
  int32_t* input_sums;  // batch x input elements: the gradient before it is quantized
  int8_t* cells;        // the map of one image after another
  int8_t* panels;       // threads x one word of input channels
  int32_t* room;        // threads x 2 x kGradientRows x 64
  int32_t* sums;        // threads x kGradientRows x 64
  int64_t* offsets;     // taps

  GradientMapScratch(Region&, const Extent&, size_t bytes);
};

// Fills input_sums. g: batch x output elements of `bytes` bytes, 1 or 2.
void input_gradient_by_map(const Context&, const GradientMapScratch&, const void* g, size_t bytes);

}  // namespace everbit
