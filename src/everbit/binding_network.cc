// The part of the bridge that tests use: a network whose every tensor, gradient and parameter can be read.
#include "binding.h"

#include <nanobind/stl/optional.h>

#include <optional>

using namespace nb::literals;

namespace everbit_python {
namespace {

// A network whose every tensor can be read: for checking the engine against other implementations.
class Network {
 public:
  Network(const nb::bytes& image, int32_t batch, const nb::dict& options) : image_(image), batch_(batch) {
    const everbit::Program& program = image_.program;
    const int32_t classes = nb::cast<int32_t>(options["classes"]);
    require(everbit::Network::check(program, widths(options), batch));
    require(everbit::Head::check(program, classes, batch));
    learning_rates(options, rates_);
    const everbit::HeadRule rule = nb::cast<bool>(options["cwr"]) ? everbit::HeadRule::kCwr : everbit::HeadRule::kPlain;
    std::vector<everbit::Block> blocks(everbit::Network::block_count(program));
    const size_t head_bytes = everbit::Head::scratch_bytes(program, classes, batch, threads(options));
    everbit::Region persistent, fixed;
    const auto layout = [&] {
      // Tests read every tensor; measurements take the network as a learner does, which shares memory and fuses layers.
      const bool keep_all = !options.contains("as_in_use");
      const size_t shared = network_.plan(program, widths(options), batch, threads(options), head_bytes, true, keep_all, blocks.data(),
                                          persistent, fixed);
      head_.plan(program, widths(options), classes, threads(options), rule, persistent, fixed);
      return shared;
    };
    const size_t shared = layout();
    memory_ = allocate(persistent.used + fixed.used + shared);
    const size_t fixed_bytes = fixed.used;
    fixed = {memory_.get() + persistent.used, 0};
    persistent = {memory_.get(), 0};
    layout();
    network_.start(memory_.get() + persistent.used + fixed_bytes, blocks.data());
    head_.start();
    classes_ = classes;
  }

  // Runs the frozen part; returns the encoded latents [n, bytes].
  nb::object encode(const Images& images) {
    require_images(image_.program, images);
    const size_t bytes = everbit::latent_bytes(image_.program);
    const size_t pixels = images.shape(1) * images.shape(2) * images.shape(3);
    std::vector<uint8_t> codes(images.shape(0) * bytes);
    const auto& latent = image_.program.layer(image_.program.latent_layer());
    for (size_t i = 0; i < images.shape(0); ++i) {
      network_.forward_frozen(images.data() + i * pixels);
      everbit::latent_encode(image_.program, network_.activation(latent.inputs[0]), codes.data() + i * bytes);
    }
    return array_of(std::move(codes), {images.shape(0), bytes});
  }

  // Runs the learnable part on encoded latents [batch, bytes].
  void forward(const Codes& codes) {
    if (codes.shape(0) != static_cast<size_t>(batch_) || codes.shape(1) != everbit::latent_bytes(image_.program)) {
      throw std::invalid_argument("encoded latents of the network's batch are needed");
    }
    const int32_t tensor = image_.program.layer(image_.program.latent_layer()).output;
    const size_t stride = everbit::activation_bytes(image_.program.tensor(tensor), 1);
    uint8_t* values = static_cast<uint8_t*>(network_.activation(tensor));
    for (size_t i = 0; i < codes.shape(0); ++i) {
      everbit::latent_decode(image_.program, codes.data() + i * codes.shape(1), values + i * stride);
    }
    network_.forward_learnable(batch_, true);
  }

  // One layer alone, on what its inputs hold after forward().
  void forward_layer(int32_t layer) {
    if (layer <= image_.program.latent_layer() || layer >= image_.program.layer_count()) {
      throw nb::index_error("there is no such layer behind the latent");
    }
    network_.forward_layer(layer, batch_);
  }

  void begin_experience(const std::vector<int32_t>& present) {
    std::vector<uint8_t> classes(static_cast<size_t>(classes_), 0);
    for (const int32_t label : present) classes.at(static_cast<size_t>(label)) = 1;
    head_.begin_experience(classes.data());
  }

  void end_experience(const std::vector<uint32_t>& counts) {
    if (counts.size() != static_cast<size_t>(classes_)) throw std::invalid_argument("one count a class is needed");
    head_.end_experience(counts.data());
  }

  // Head and body: one training step on the batch that forward() saw. Returns how many of it were right.
  // rounding_key: of stochastic rounding in this step; none: to nearest.
  int32_t train(const Labels& labels, std::optional<uint64_t> rounding_key) {
    const int32_t right = train_head(labels, rounding_key);
    everbit::Scale step[everbit::kParameterKinds];
    steps(step);
    network_.backward(batch_, step, rounding_of(rounding_key));
    return right;
  }

  // The head alone, and the gradient that it hands down.
  int32_t train_head(const Labels& labels, std::optional<uint64_t> rounding_key) {
    if (labels.shape(0) != static_cast<size_t>(batch_)) throw std::invalid_argument("one label a pattern of the batch is needed");
    for (size_t i = 0; i < labels.shape(0); ++i) {
      if (labels.data()[i] < 0 || labels.data()[i] >= classes_) {
        throw std::invalid_argument("a label is of no class");
      }
    }
    std::vector<uint16_t> batch_labels(labels.data(), labels.data() + labels.shape(0));
    everbit::Scale step[everbit::kParameterKinds];
    steps(step);
    return network_.train_head(head_, batch_labels.data(), batch_, step[static_cast<int>(everbit::ParameterKind::kHead)],
                               rounding_of(rounding_key));
  }

  // The body alone, from a gradient of the last tensor.
  void backward(const Integers& gradient, int32_t exponent) {
    everbit::Gradient& target = network_.gradient(feature_tensor());
    if (target.values == nullptr) throw std::invalid_argument("nothing in this network learns");
    const auto& tensor = image_.program.feature_tensor();
    if (gradient.shape(0) != static_cast<size_t>(batch_) * static_cast<size_t>(tensor.elements())) {
      throw std::invalid_argument("one gradient a feature of the batch is needed");
    }
    const int width = network_.widths().non_binary;
    for (size_t i = 0; i < gradient.shape(0); ++i) {
      everbit::store_value(target.values, static_cast<int32_t>(i), width, static_cast<int32_t>(gradient.data()[i]));
    }
    target.exponent = exponent;
    target.present = true;
    everbit::Scale step[everbit::kParameterKinds];
    steps(step);
    network_.backward(batch_, step, everbit::Rounding{});
  }

  nb::object logits(bool temporary) {
    std::vector<int32_t> out(static_cast<size_t>(batch_) * static_cast<size_t>(classes_));
    head_.logits(network_.activation(feature_tensor()), batch_, temporary, out.data());
    return array_of(std::move(out), {static_cast<size_t>(batch_), static_cast<size_t>(classes_)});
  }

  // Raw memory of a tensor of the last call: integers, or 64-bit words of bits.
  nb::bytes activation(int32_t tensor, int32_t batch) const {
    require_tensor(tensor);
    const everbit::TensorRecord& record = image_.program.tensor(tensor);
    if (batch < 1 || batch > patterns_of(tensor)) throw nb::index_error("the tensor does not hold so many patterns");
    return nb::bytes(static_cast<const char*>(network_.activation(tensor)), everbit::activation_bytes(record, batch));
  }

  nb::object gradient(int32_t tensor) const {
    require_tensor(tensor);
    const everbit::Gradient& g = network_.gradient(tensor);
    if (g.values == nullptr || !g.present) return nb::none();
    const everbit::TensorRecord& record = image_.program.tensor(tensor);
    std::vector<int64_t> out(static_cast<size_t>(batch_) * static_cast<size_t>(record.elements()));
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = everbit::load_value(g.values, static_cast<int32_t>(i), network_.widths().non_binary);
    }
    const size_t count = out.size();
    return nb::make_tuple(array_of(std::move(out), {count}), g.exponent);
  }

  // Values of a parameter, or None where it has no latent weights.
  nb::object parameter(int32_t index) const {
    if (index < 0 || index >= image_.program.parameter_count()) throw nb::index_error("there is no such parameter");
    return values_of(network_.parameter(index));
  }

  nb::bytes weight_bits(int32_t layer) const {
    if (layer < 0 || layer >= image_.program.layer_count() || network_.binary_weights(layer).bits == nullptr) {
      throw nb::index_error("there is no such binary convolution");
    }
    const auto& record = image_.program.layer(layer);
    return nb::bytes(reinterpret_cast<const char*>(network_.binary_weights(layer).bits), static_cast<size_t>(record.arrays[0].bytes));
  }

  nb::object head(bool temporary) const {
    const int32_t count = classes_ * image_.program.feature_tensor().elements();
    void* rows = const_cast<void*>(temporary ? head_.temporary() : head_.consolidated());
    return values_of({everbit::ParameterKind::kHead, count, 0, network_.widths().non_binary, rows, true, {}});
  }

 private:
  static everbit::Rounding rounding_of(std::optional<uint64_t> key) { return {key.has_value(), key.value_or(0)}; }
  void steps(everbit::Scale* step) const {
    for (int k = 0; k < everbit::kParameterKinds; ++k) step[k] = rates_[k] * everbit::reciprocal(static_cast<uint32_t>(batch_));
  }

  void require_tensor(int32_t index) const {
    if (index < 0 || index >= image_.program.tensor_count()) throw nb::index_error("there is no such tensor");
  }

  // The frozen part holds one image, the learnable part the batch; a tensor that no layer writes holds none.
  int32_t patterns_of(int32_t tensor) const {
    for (int32_t i = 0; i < image_.program.layer_count(); ++i) {
      if (image_.program.layer(i).output == tensor) return i < image_.program.latent_layer() ? 1 : batch_;
    }
    return 0;
  }

  static nb::object values_of(const everbit::Parameter& p) {
    if (p.values == nullptr) return nb::none();
    std::vector<int64_t> out(static_cast<size_t>(p.count));
    for (int32_t i = 0; i < p.count; ++i) out[static_cast<size_t>(i)] = p.get(i);
    return array_of(std::move(out), {static_cast<size_t>(p.count)});
  }

  int32_t feature_tensor() const { return image_.program.layer(image_.program.layer_count() - 1).output; }

  ProgramImage image_;
  int32_t batch_;
  int32_t classes_ = 0;
  everbit::Scale rates_[everbit::kParameterKinds]{};
  Memory memory_;
  everbit::Network network_;
  everbit::Head head_;
};

}  // namespace

void bind_network(nb::module_& m) {
  nb::class_<Network>(m, "Network")
      .def(nb::init<const nb::bytes&, int32_t, const nb::dict&>(), "image"_a, "batch"_a, "options"_a)
      .def("encode", &Network::encode, "images"_a)
      .def("forward", &Network::forward, "codes"_a)
      .def("begin_experience", &Network::begin_experience, "present"_a)
      .def("end_experience", &Network::end_experience, "counts"_a)
      .def("forward_layer", &Network::forward_layer, "layer"_a)
      .def("train", &Network::train, "labels"_a, "rounding_key"_a = nb::none())
      .def("train_head", &Network::train_head, "labels"_a, "rounding_key"_a = nb::none())
      .def("backward", &Network::backward, "gradient"_a, "exponent"_a)
      .def("logits", &Network::logits, "temporary"_a)
      .def("activation", &Network::activation, "tensor"_a, "batch"_a)
      .def("gradient", &Network::gradient, "tensor"_a)
      .def("parameter", &Network::parameter, "index"_a)
      .def("weight_bits", &Network::weight_bits, "layer"_a)
      .def("head", &Network::head, "temporary"_a);
}

}  // namespace everbit_python
