#include "program.h"

#include <cstring>

#include "layers/layer.h"

namespace everbit {
namespace {

constexpr char kMagic[8] = {'E', 'V', 'E', 'R', 'B', 'I', 'T', '\0'};
constexpr int32_t kArrayAlignment = 64;
constexpr int32_t kMaxLayers = 1 << 11;       // and tensors; some checks and the memory plan take their square
constexpr int32_t kMaxSide = 1 << 14;         // height, width, channels
constexpr int64_t kMaxElements = 1 << 26;     // of one tensor of one image
constexpr int32_t kMaxFeatures = 1 << 16;     // a logit sums products of 16 and 31 bits in int64
constexpr int32_t kMaxScaleExponent = 1 << 10;

bool inside(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

bool valid_extent(int32_t offset, int32_t bytes, size_t image_bytes) {
  return offset >= 0 && bytes >= 0 && offset % kArrayAlignment == 0 &&
         static_cast<uint64_t>(offset) + static_cast<uint64_t>(bytes) <= image_bytes;
}

bool known_width(int32_t bits) { return bits == 1 || bits == 8 || bits == 16 || bits == 32; }

}  // namespace

bool valid_scale(Scale value) {
  const int64_t size = value.mantissa < 0 ? -static_cast<int64_t>(value.mantissa) : value.mantissa;
  return (size == 0 || inside(size, int64_t{1} << 30, (int64_t{1} << 31) - 1)) &&
         inside(value.exponent, -kMaxScaleExponent, kMaxScaleExponent);
}

const char* Program::open(const uint8_t* image, size_t bytes) {
  if (image == nullptr || bytes < sizeof(Header)) return "the program image is truncated: shorter than its header";
  if (reinterpret_cast<uintptr_t>(image) % kArrayAlignment != 0) return "the program image is not aligned to 64 bytes";
  image_ = image;
  if (std::memcmp(header()->magic, kMagic, sizeof kMagic) != 0) return "this is not an everbit program image";
  if (header()->version > kProgramVersion) return "the program image was written by a newer everbit: update this one";
  if (header()->version < 1) return "the program image names a version that never existed";
  if (header()->image_bytes < 0 || static_cast<size_t>(header()->image_bytes) != bytes) {
    return "the program image is truncated: its header names another length";
  }
  // In this order: each check trusts what the one before it found sound.
  if (const char* problem = check_tables(bytes)) return problem;
  if (const char* problem = check_graph()) return problem;
  if (const char* problem = check_parameters()) return problem;
  if (const char* problem = check_features()) return problem;
  return check_classifier();
}

const char* Program::check_tables(size_t bytes) {
  const Header& h = *header();
  if (!inside(h.tensor_count, 1, kMaxLayers) || !inside(h.layer_count, 2, kMaxLayers) ||
      !inside(h.parameter_count, 0, kMaxParameters * kMaxLayers)) {
    return "the program image has an impossible number of tensors, layers or parameters";
  }
  const size_t tensor_bytes = sizeof(TensorRecord) * static_cast<size_t>(h.tensor_count);
  const size_t layer_bytes = sizeof(LayerRecord) * static_cast<size_t>(h.layer_count);
  const size_t parameter_bytes = sizeof(ParameterRecord) * static_cast<size_t>(h.parameter_count);
  if (sizeof(Header) + tensor_bytes + layer_bytes + parameter_bytes > bytes) {
    return "the program image is truncated: its tables do not fit";
  }
  tensors_ = reinterpret_cast<const TensorRecord*>(image_ + sizeof(Header));
  layers_ = reinterpret_cast<const LayerRecord*>(image_ + sizeof(Header) + tensor_bytes);
  parameters_ = reinterpret_cast<const ParameterRecord*>(image_ + sizeof(Header) + tensor_bytes + layer_bytes);

  for (int32_t i = 0; i < h.tensor_count; ++i) {
    const TensorRecord& t = tensors_[i];
    if (!inside(t.height, 1, kMaxSide) || !inside(t.width, 1, kMaxSide) || !inside(t.channels, 1, kMaxSide) ||
        int64_t{1} * t.height * t.width * t.channels > kMaxElements) {
      return "a tensor of the program has an impossible shape";
    }
    const int32_t half = t.bits == 8 ? 1 << 7 : t.bits == 16 ? 1 << 15 : 0;  // of the integers a zero point may be
    if (!known_width(t.bits) || (t.zero_point != 0 && !inside(t.zero_point, -half, half - 1))) {
      return "a tensor of the program has an impossible width or zero point";
    }
  }
  for (int32_t i = 0; i < h.layer_count; ++i) {
    for (const ArrayRecord& a : layers_[i].arrays) {
      if (!valid_extent(a.offset, a.bytes, bytes)) return "an array of the program lies outside the image";
    }
  }
  for (int32_t i = 0; i < h.parameter_count; ++i) {
    if (!valid_extent(parameters_[i].offset, parameters_[i].bytes, bytes)) {
      return "a parameter of the program lies outside the image";
    }
  }
  if (!valid_scale(h.head.logit) || !valid_scale(h.head.feature) || !inside(h.head.range_exponent, -31, 31)) {
    return "the head of the program has an impossible scale";
  }
  return nullptr;
}

const char* Program::check_graph() {
  const Header& h = *header();
  latent_layer_ = kAbsent;
  for (int32_t i = 0; i < h.layer_count; ++i) {
    const LayerRecord& layer = layers_[i];
    if (!inside(static_cast<int32_t>(layer.operation), 0, static_cast<int32_t>(Operation::kCount) - 1)) {
      return "a layer of the program has an unknown kind";
    }
    if ((layer.operation == Operation::kInput) != (i == 0)) return "the program must begin with its only input layer";
    if (layer.operation == Operation::kLatent) {
      if (latent_layer_ != kAbsent) return "the program has more than one latent";
      latent_layer_ = i;
    }
    if (latent_layer_ != kAbsent && latent_layer_ != i && layer_kind(layer.operation).backward == nullptr) {
      return "a layer of a kind that cannot learn stands behind the latent";
    }
    if (!inside(layer.output, 0, h.tensor_count - 1)) return "a layer of the program writes a tensor that does not exist";
    for (int32_t j = 0; j < i; ++j) {
      if (layers_[j].output == layer.output) return "two layers of the program write the same tensor";
    }
    const int inputs = layer_kind(layer.operation).inputs;
    for (int k = 0; k < 2; ++k) {
      if (k >= inputs) {
        if (layer.inputs[k] != kAbsent) return "a layer of the program has too many inputs";
        continue;
      }
      // Layers after the latent may read it and what follows it, nothing that was frozen.
      bool found = false;
      const int32_t from = latent_layer_ == kAbsent || latent_layer_ == i ? 0 : latent_layer_;
      for (int32_t j = from; j < i; ++j) found = found || layers_[j].output == layer.inputs[k];
      if (!found) return "a layer of the program reads a tensor that no earlier layer on its side of the latent wrote";
    }
  }
  if (latent_layer_ == kAbsent) return "the program has no latent: it was never cut";
  return nullptr;
}

const char* Program::check_parameters() const {
  const Header& h = *header();
  for (int32_t i = 0; i < h.parameter_count; ++i) {
    const ParameterRecord& p = parameters_[i];
    if (!inside(p.layer, 0, h.layer_count - 1) || p.count < 1 || !inside(p.range_exponent, -31, 31) ||
        !inside(static_cast<int32_t>(p.kind), 0, kParameterKinds - 1) ||
        static_cast<int64_t>(p.bytes) != int64_t{4} * p.count) {
      return "a parameter of the program is malformed";
    }
  }
  int32_t next = 0;  // parameters stand in the order of their layers, so that each belongs to one
  for (int32_t i = 0; i < h.layer_count; ++i) {
    const LayerKind& kind = layer_kind(layers_[i].operation);
    for (int k = 0; k < kMaxParameters; ++k) {
      const int32_t index = layers_[i].parameters[k];
      if (index == kAbsent) continue;
      if (index != next || next >= h.parameter_count || parameters_[index].layer != i) {
        return "a layer of the program names a parameter that is not its own";
      }
      if (kind.parameters[k] == ParameterKind::kHead || parameters_[index].kind != kind.parameters[k]) {
        return "a layer of the program has a parameter of a kind it does not learn";
      }
      ++next;
    }
    if (const char* problem = kind.check(*this, layers_[i])) return problem;
  }
  return next == h.parameter_count ? nullptr : "a parameter of the program belongs to no layer";
}

const char* Program::check_features() const {
  const TensorRecord& features = feature_tensor();
  if (features.bits == 1) return "the program ends in single bits, which its head cannot read";
  return features.elements() <= kMaxFeatures ? nullptr : "the program ends in more than 65536 features";
}

const char* Program::check_classifier() const {
  const ClassifierRecord& known = header()->classifier;
  if (!inside(known.classes, 0, kMaxClasses)) return "the program knows an impossible number of classes";
  if (known.classes == 0) return nullptr;
  const int64_t row = int64_t{4} * known.classes;
  const int64_t weights = row * feature_tensor().elements();
  const size_t bytes = static_cast<size_t>(header()->image_bytes);
  if (weights > header()->image_bytes || !valid_extent(known.weights, static_cast<int32_t>(weights), bytes) ||
      !valid_extent(known.bias, static_cast<int32_t>(row), bytes) || !valid_extent(known.past, static_cast<int32_t>(row), bytes)) {
    return "the classes that the program knows lie outside the image";
  }
  for (int32_t j = 0; j < known.classes; ++j) {
    if (known_past()[j] < 1) return "a class that the program knows stands for no pattern";
  }
  return nullptr;
}

}  // namespace everbit
