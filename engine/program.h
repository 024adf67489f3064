// A program image: the layers of a network as constant data, read in place.
//
// Written by src/everbit/compile/image.py (which holds the same tables by name), checked here before anything runs: a hostile image is
// refused with a reason, never read out of bounds. All fields are little-endian int32; arrays are aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fixed_point.h"

namespace everbit {

constexpr int32_t kProgramVersion = 1;
constexpr int32_t kAbsent = -1;
constexpr int32_t kMaxAttributes = 8;
constexpr int32_t kMaxArrays = 4;
constexpr int32_t kMaxParameters = 3;
constexpr int32_t kMaxClasses = 65534;  // labels have 16 bits, and the largest stands for none

enum class Operation : int32_t {
  kInput,
  kConvolution,
  kBinaryConvolution,
  kAffine,
  kBatchNorm,
  kSign,
  kAdd,
  kRPReLU,
  kAveragePool,
  kMaxPool,
  kGlobalAveragePool,
  kLatent,
  kDepthwiseConvolution,
  kBlurPool,
  kGlobalMaxPool,
  kClamp,
  kConcat,
  kFlatten,
  kCount,
};

enum class ParameterKind : int32_t { kHead, kBinary, kNorm, kBias, kWeight, kCount };
constexpr int kParameterKinds = static_cast<int>(ParameterKind::kCount);

// One activation: [batch, height, width, channels] of 1, 8, 16 or 32 bits; a 32-bit one has zero point 0.
struct TensorRecord {
  int32_t height;
  int32_t width;
  int32_t channels;
  int32_t bits;
  int32_t zero_point;

  int32_t pixels() const { return height * width; }
  int32_t elements() const { return height * width * channels; }
};

struct ArrayRecord {
  int32_t offset;
  int32_t bytes;  // 0: absent
};

struct LayerRecord {
  Operation operation;
  int32_t inputs[2];
  int32_t output;
  int32_t attributes[kMaxAttributes];
  ArrayRecord arrays[kMaxArrays];
  int32_t parameters[kMaxParameters];

  Scale scale_attribute(int first) const { return {attributes[first], attributes[first + 1]}; }
};

struct ParameterRecord {
  int32_t layer;
  ParameterKind kind;
  int32_t count;
  int32_t range_exponent;
  int32_t offset;
  int32_t bytes;
};

struct HeadRecord {
  int32_t range_exponent;
  Scale logit;    // of S * 2^range_exponent * 2^16
  Scale feature;  // of S
};

// The classes a program knows before it learns: rows of the head at 32 bits, their constant biases in units of 2^-16, and how many
// patterns each row stands for. Images older than this hold 0.
struct ClassifierRecord {
  int32_t classes;
  int32_t weights;  // offsets in the image: [classes][features]
  int32_t bias;     // [classes]
  int32_t past;     // [classes]
};

// A view of an image that check() accepted. The image must outlive it and be aligned to 64 bytes.
class Program {
 public:
  Program() = default;
  // Records that stand elsewhere, all of them behind the cut; nothing else of a program exists.
  Program(const TensorRecord* tensors, const LayerRecord* layers) : tensors_(tensors), layers_(layers) {}

  // Returns nullptr and fills the view, or returns what is wrong.
  const char* open(const uint8_t* image, size_t bytes);

  const uint8_t* image() const { return image_; }
  size_t image_bytes() const { return static_cast<size_t>(header()->image_bytes); }
  int32_t tensor_count() const { return header()->tensor_count; }
  int32_t layer_count() const { return header()->layer_count; }
  int32_t parameter_count() const { return header()->parameter_count; }
  int32_t latent_layer() const { return latent_layer_; }
  // Whether a layer stands behind the latent.
  bool learnable(const LayerRecord& layer) const { return &layer - layers_ > latent_layer_; }

  const TensorRecord& tensor(int32_t index) const { return tensors_[index]; }
  const LayerRecord& layer(int32_t index) const { return layers_[index]; }
  const ParameterRecord& parameter(int32_t index) const { return parameters_[index]; }
  const HeadRecord& head() const { return header()->head; }

  const TensorRecord& input_tensor() const { return tensors_[layers_[0].output]; }
  const TensorRecord& latent_tensor() const { return tensors_[layers_[latent_layer_].output]; }
  const TensorRecord& feature_tensor() const { return tensors_[layers_[layer_count() - 1].output]; }

  // A layer's constant array, nullptr where absent.
  template <typename T>
  const T* array(const LayerRecord& layer, int index) const {
    const ArrayRecord& record = layer.arrays[index];
    return record.bytes == 0 ? nullptr : reinterpret_cast<const T*>(image_ + record.offset);
  }

  const int32_t* parameter_values(int32_t index) const { return integers_at(parameters_[index].offset); }

  int32_t known_classes() const { return header()->classifier.classes; }
  const int32_t* known_weights() const { return integers_at(header()->classifier.weights); }
  const int32_t* known_bias() const { return integers_at(header()->classifier.bias); }
  const int32_t* known_past() const { return integers_at(header()->classifier.past); }

 private:
  struct Header {
    char magic[8];
    int32_t version;
    int32_t image_bytes;
    int32_t tensor_count;
    int32_t layer_count;
    int32_t parameter_count;
    HeadRecord head;
    ClassifierRecord classifier;
    int32_t reserved[2];
  };

  const Header* header() const { return reinterpret_cast<const Header*>(image_); }
  const int32_t* integers_at(int32_t offset) const { return reinterpret_cast<const int32_t*>(image_ + offset); }
  const char* check_tables(size_t bytes);
  const char* check_graph();
  const char* check_parameters() const;
  const char* check_features() const;
  const char* check_classifier() const;

  const uint8_t* image_ = nullptr;
  const TensorRecord* tensors_ = nullptr;
  const LayerRecord* layers_ = nullptr;
  const ParameterRecord* parameters_ = nullptr;
  int32_t latent_layer_ = kAbsent;
};

}  // namespace everbit
