#include "binary_products.h"

#include <cstring>

#include "binary_weight_sums.h"
#include "layers.h"

namespace everbit {
namespace {

constexpr Widths kWidths{16, 16};  // a weight gradient is wanted, from gradients of 16 bits

// What a layer is given: activations and gradients by tensor, and its weights.
struct Call {
  void* activations[2];
  Gradient gradients[2];
  BinaryWeights weights;

  Context context(const Program& program, const LayerRecord& layer, int32_t images, int threads, void* scratch) {
    return {program, layer, images, kWidths, threads, activations, gradients, nullptr, &weights, nullptr, scratch, nullptr, false, nullptr};
  }
};

// Whether int32 counts the values of a batch, in whole words of bits too. Sides are 1 to 65536.
bool countable(const TensorRecord& t, int32_t batch) {
  const int64_t places = int64_t{t.height} * t.width;
  const int64_t most = INT32_MAX;
  return places <= most && places * (words_for(t.channels) * 64) <= most / batch;
}

// The layer reads what it is given.
void* readable(const void* values) { return const_cast<void*>(values); }

}  // namespace

const char* BinaryProducts::open(const TensorRecord& in, const TensorRecord& out, const Window& w, int32_t pad_value, int32_t batch,
                                 int threads) {
  if (threads < 1 || batch < 1 || !countable(in, batch) || !countable(out, batch)) return "a call takes fewer than 2^31 values";
  tensors_[0] = in;
  tensors_[1] = out;
  layer_ = {};
  layer_.operation = Operation::kBinaryConvolution;
  layer_.output = 1;
  const int32_t attributes[] = {w.kernel_height, w.kernel_width, w.stride, w.top, pad_value, w.left - w.top};
  std::memcpy(layer_.attributes, attributes, sizeof attributes);
  program_ = Program(tensors_, &layer_);
  batch_ = batch;
  threads_ = threads;
  if (const char* problem = binary_shape_check(program_, layer_)) return problem;
  if (int64_t{batch} * out.pixels() > kPlacesAtOnce) return "a call takes 1 to 65536 places";
  return nullptr;
}

size_t BinaryProducts::weight_words() const { return binary_weight_words(program_, layer_); }

size_t BinaryProducts::scratch_bytes() const {
  Region room;
  room.take<int16_t>(static_cast<size_t>(binary_tap_sums(program_, layer_)));
  return saturating_sum(room.used, binary_convolution_scratch({program_, layer_, batch_, kWidths, threads_}));
}

void BinaryProducts::sums(const uint64_t* x, const uint64_t* weights, int32_t images, void* scratch, int16_t* z) const {
  Region room{static_cast<uint8_t*>(scratch)};
  int16_t* tap_sums = room.take<int16_t>(static_cast<size_t>(binary_tap_sums(program_, layer_)));
  Call call{{readable(x), z}, {}, {weights, nullptr, tap_sums}};
  refresh_tap_sums(program_, layer_, call.weights, threads_);
  binary_convolution_forward(call.context(program_, layer_, images, threads_, room.base + room.used));
}

void BinaryProducts::input_gradient(const int16_t* g, const uint64_t* weights, int32_t images, void* scratch, int32_t* dx) const {
  Call call{{}, {}, {weights, nullptr, nullptr}};
  const int32_t* sums = binary_input_gradient(call.context(program_, layer_, images, threads_, scratch), g);
  std::memcpy(dx, sums, static_cast<size_t>(images) * static_cast<size_t>(tensors_[0].elements()) * sizeof(int32_t));
}

void BinaryProducts::weight_gradient(const int16_t* g, const uint64_t* x, int32_t images, void* scratch, int32_t* dw) const {
  Call call{{readable(x), nullptr}, {}, {}};
  const Context context = call.context(program_, layer_, images, threads_, scratch);
  const TensorRecord& in = tensors_[0];
  const TensorRecord& out = tensors_[1];
  const int32_t taps = binary_window(layer_).taps();
  const int32_t words = words_for(in.channels);
  Region region{static_cast<uint8_t*>(scratch)};
  const WeightGradientScratch<int16_t, int32_t> room(region, threads_, images, out);
  for (int32_t o = 0; o < out.channels; ++o) room.moving[o] = o;
  for_each_weight_sums(context, room, g, out.channels, threads_, [&](int32_t step, const auto* sums) {
    const int32_t w = step % words;
    const int32_t count = in.channels - w * 64 < 64 ? in.channels - w * 64 : 64;
    for (int32_t o = 0; o < out.channels; ++o) {
      int32_t* to = dw + (static_cast<int64_t>(o) * taps + step / words) * in.channels + w * 64;
      for (int32_t c = 0; c < count; ++c) to[c] = static_cast<int32_t>(sums[o * 64 + c]);
    }
  });
}

}  // namespace everbit
