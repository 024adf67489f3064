// The engine in Python. Every function converts arguments, calls the engine and converts back; no rule lives here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/isa.h"
#include "learner/learner.h"
#include "layers/layers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using everbit::Isa;
using Images = nb::ndarray<const uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Free {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<uint8_t[], Free>;

Memory allocate(size_t bytes) {
  const size_t rounded = everbit::aligned(bytes == 0 ? 1 : bytes);
  Memory memory(static_cast<uint8_t*>(std::aligned_alloc(everbit::kAlignment, rounded)));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory.get(), 0, rounded);
  return memory;
}

void require(const char* problem) {
  if (problem != nullptr) throw std::invalid_argument(problem);
}

template <typename T>
nb::object array_of(std::vector<T>&& values, std::initializer_list<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape, owner));
}

// A program image, copied to aligned memory and checked.
struct ProgramImage {
  Memory memory;
  everbit::Program program;

  explicit ProgramImage(const nb::bytes& image) : memory(allocate(image.size())) {
    std::memcpy(memory.get(), image.c_str(), image.size());
    require(program.open(memory.get(), image.size()));
  }
};

everbit::Widths widths(const nb::dict& options) {
  return {nb::cast<int>(options["q_bin"]), nb::cast<int>(options["q_nonbin"])};
}

everbit::Scale to_scale(nb::handle pair) {
  const auto values = nb::cast<std::vector<int32_t>>(pair);
  return {values.at(0), values.at(1)};
}

void learning_rates(const nb::dict& options, everbit::Scale* rates) {
  size_t kind = 0;
  for (nb::handle rate : nb::list(options["learning_rates"])) {
    if (kind < everbit::kParameterKinds) rates[kind++] = to_scale(rate);
  }
}

void require_images(const everbit::Program& program, const Images& images) {
  const everbit::TensorRecord& t = program.input_tensor();
  if (images.shape(1) != static_cast<size_t>(t.height) || images.shape(2) != static_cast<size_t>(t.width) ||
      images.shape(3) != static_cast<size_t>(t.channels)) {
    throw std::invalid_argument("the images do not have the shape of the program's input");
  }
}

// One thread at a time inside; the others wait without holding up Python.
class Learner {
 public:
  Learner(const nb::bytes& image, const nb::dict& options) : image_(image) {
    everbit::LearnerOptions o{};
    o.widths = widths(options);
    o.classes = nb::cast<int32_t>(options["classes"]);
    o.replay_slots = nb::cast<int32_t>(options["replay_slots"]);
    o.replay_per_class = nb::cast<int32_t>(options["replay_per_class"]);
    o.experience_patterns = nb::cast<int32_t>(options["experience_patterns"]);
    o.batch_new = nb::cast<int32_t>(options["batch_new"]);
    o.batch_replayed = nb::cast<int32_t>(options["batch_replayed"]);
    o.head_rule = nb::cast<bool>(options["cwr"]) ? everbit::HeadRule::kCwr : everbit::HeadRule::kPlain;
    o.train_body = nb::cast<bool>(options["train_body"]);
    o.count_replayed = nb::cast<bool>(options["count_replayed"]);
    o.seed = nb::cast<uint64_t>(options["seed"]);
    learning_rates(options, o.learning_rates);
    workspace_ = allocate(everbit::Learner::workspace_bytes(image_.program));
    everbit::MemoryUse use{};
    require(learner_.plan(image_.program, o, workspace_.get(), use));
    arena_ = allocate(use.total);
    learner_.start(arena_.get(), workspace_.get());
    classes_ = o.classes;
  }

  void add(const Images& images, const Labels& labels) {
    require_images(image_.program, images);
    if (images.shape(0) != labels.shape(0)) throw std::invalid_argument("as many labels as images are needed");
    const size_t pixels = images.shape(1) * images.shape(2) * images.shape(3);
    alone([&] {
      for (size_t i = 0; i < images.shape(0); ++i) require(learner_.add(images.data() + i * pixels, labels.data()[i]));
    });
  }

  int64_t begin_training(int32_t epochs) {
    return alone([&] {
      if (learner_.experience_size() == 0 || epochs < 1) throw std::invalid_argument("an experience needs images and at least one epoch");
      if (learner_.training()) throw std::invalid_argument("the experience is being trained on already");
      return learner_.begin_training(epochs);
    });
  }

  nb::tuple train_step() {
    const everbit::Learner::Step step = alone([&] {
      require_training();
      return learner_.train_step();
    });
    return nb::make_tuple(step.right, step.patterns);
  }

  void end_experience() {
    alone([&] {
      require_training();
      learner_.end_experience();
    });
  }

  nb::object logits(const Images& images) {
    require_images(image_.program, images);
    const size_t count = images.shape(0), classes = static_cast<size_t>(classes_);
    const size_t pixels = images.shape(1) * images.shape(2) * images.shape(3);
    std::vector<int32_t> out(count * classes);
    alone([&] {
      for (size_t i = 0; i < count; ++i) learner_.logits(images.data() + i * pixels, out.data() + i * classes);
    });
    return array_of(std::move(out), {count, classes});
  }

  nb::bytes state() const {
    const nb::bytes copy = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(learner_.state_bytes())));
    if (!copy.is_valid()) throw std::bad_alloc();
    char* to = PyBytes_AS_STRING(copy.ptr());
    alone([&] { std::memcpy(to, learner_.state(), learner_.state_bytes()); });
    return copy;
  }

  void restore(const nb::bytes& state) {
    if (state.size() != learner_.state_bytes()) throw std::invalid_argument("the state belongs to another program or other options");
    alone([&] {
      std::memcpy(arena_.get(), state.c_str(), state.size());
      require(learner_.restore());
    });
  }

  bool known(int32_t label) const { return label >= 0 && label < classes_ && learner_.known(label); }

  nb::dict memory() const {
    const everbit::MemoryUse& use = learner_.memory();
    nb::dict out;
    out["persistent"] = use.persistent;
    out["replay"] = learner_.replay_memory().bytes();
    out["experience"] = use.experience;
    out["fixed"] = use.fixed;
    out["shared"] = use.shared;
    out["total"] = use.total;
    return out;
  }

  // The replay memory's patterns and labels, in the order of slots.
  nb::tuple replay() const {
    const everbit::ReplayMemory& memory = learner_.replay_memory();
    const size_t bytes = everbit::latent_bytes(image_.program);
    std::vector<uint8_t> patterns;
    std::vector<int32_t> labels;
    alone([&] {
      for (int32_t i = 0; i < memory.size(); ++i) {
        patterns.insert(patterns.end(), memory.pattern(i), memory.pattern(i) + bytes);
        labels.push_back(memory.label(i));
      }
    });
    const size_t size = labels.size();
    return nb::make_tuple(array_of(std::move(patterns), {size, bytes}), array_of(std::move(labels), {size}));
  }

 private:
  template <typename F>
  std::invoke_result_t<F> alone(F&& f) const {
    const nb::gil_scoped_release release;
    const std::lock_guard<std::mutex> lock(mutex_);
    return f();
  }

  void require_training() const {
    if (!learner_.training()) throw std::invalid_argument("there is no experience to train on: begin_training first");
  }

  mutable std::mutex mutex_;
  ProgramImage image_;
  Memory workspace_;
  Memory arena_;
  everbit::Learner learner_;
  int32_t classes_ = 0;
};

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
    const size_t head_bytes = everbit::Head::scratch_bytes(program, classes, batch);
    everbit::Region persistent, fixed;
    const auto layout = [&] {
      const size_t shared = network_.plan(program, widths(options), batch, head_bytes, true, true, blocks.data(), persistent, fixed);
      head_.plan(program, widths(options), classes, rule, persistent, fixed);
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

  // kept: labels whose temporary rows start from the consolidated ones.
  void begin_experience(const std::vector<int32_t>& kept) {
    std::vector<uint8_t> rows(static_cast<size_t>(classes_), 0);
    for (const int32_t label : kept) rows.at(static_cast<size_t>(label)) = 1;
    head_.begin_experience(rows.data());
  }

  void end_experience(const std::vector<uint32_t>& counts) {
    if (counts.size() != static_cast<size_t>(classes_)) throw std::invalid_argument("one count a class is needed");
    head_.end_experience(counts.data());
  }

  // Head and body: one training step on the batch that forward() saw.
  int32_t train(const Labels& labels) {
    if (labels.shape(0) != static_cast<size_t>(batch_)) throw std::invalid_argument("one label a pattern of the batch is needed");
    for (size_t i = 0; i < labels.shape(0); ++i) {
      if (labels.data()[i] < 0 || labels.data()[i] >= classes_) {
        throw std::invalid_argument("a label is of no class");
      }
    }
    std::vector<uint16_t> batch_labels(labels.data(), labels.data() + labels.shape(0));
    everbit::Scale step[everbit::kParameterKinds];
    for (int k = 0; k < everbit::kParameterKinds; ++k) step[k] = rates_[k] * everbit::reciprocal(static_cast<uint32_t>(batch_));
    const int32_t features = feature_tensor();
    const int32_t right = head_.train(network_.activation(features), batch_labels.data(), batch_,
                                      step[static_cast<int>(everbit::ParameterKind::kHead)], network_.gradient(features),
                                      network_.head_memory());
    network_.backward(batch_, step);
    return right;
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
    for (int k = 0; k < everbit::kParameterKinds; ++k) step[k] = rates_[k] * everbit::reciprocal(static_cast<uint32_t>(batch_));
    network_.backward(batch_, step);
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
    return values_of({everbit::ParameterKind::kHead, count, 0, network_.widths().non_binary, rows, true});
  }

 private:
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

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(Isa::kCount); ++i) {
    if (everbit::isa_available(static_cast<Isa>(i))) names.emplace_back(everbit::isa_name(static_cast<Isa>(i)));
  }
  return names;
}

bool select_isa(const std::string& name) {
  for (int i = 0; i < static_cast<int>(Isa::kCount); ++i) {
    if (name == everbit::isa_name(static_cast<Isa>(i))) return everbit::select_isa(static_cast<Isa>(i));
  }
  return false;
}

}  // namespace

NB_MODULE(_engine, m) {
  m.doc() = "The integer engine of everbit.";
  m.def("available_isas", &available_isas, "Instruction sets this processor can run, scalar first.");
  m.def("active_isa", [] { return std::string(everbit::isa_name(everbit::active_isa())); }, "The instruction set in use.");
  m.def("select_isa", &select_isa, "name"_a, "Uses another instruction set; False where the processor lacks it.");
  m.def("check_program", [](const nb::bytes& image) { ProgramImage checked(image); }, "image"_a,
        "Raises ValueError, with what is wrong, unless the bytes are a sound program image.");

  nb::class_<Learner>(m, "Learner")
      .def(nb::init<const nb::bytes&, const nb::dict&>(), "image"_a, "options"_a)
      .def("add", &Learner::add, "images"_a, "labels"_a)
      .def("begin_training", &Learner::begin_training, "epochs"_a)
      .def("train_step", &Learner::train_step)
      .def("end_experience", &Learner::end_experience)
      .def("logits", &Learner::logits, "images"_a)
      .def("known", &Learner::known, "label"_a)
      .def("state", &Learner::state)
      .def("restore", &Learner::restore, "state"_a)
      .def("memory", &Learner::memory)
      .def("replay", &Learner::replay);

  nb::class_<Network>(m, "Network")
      .def(nb::init<const nb::bytes&, int32_t, const nb::dict&>(), "image"_a, "batch"_a, "options"_a)
      .def("encode", &Network::encode, "images"_a)
      .def("forward", &Network::forward, "codes"_a)
      .def("begin_experience", &Network::begin_experience, "kept"_a)
      .def("end_experience", &Network::end_experience, "counts"_a)
      .def("train", &Network::train, "labels"_a)
      .def("backward", &Network::backward, "gradient"_a, "exponent"_a)
      .def("logits", &Network::logits, "temporary"_a)
      .def("activation", &Network::activation, "tensor"_a, "batch"_a)
      .def("gradient", &Network::gradient, "tensor"_a)
      .def("parameter", &Network::parameter, "index"_a)
      .def("weight_bits", &Network::weight_bits, "layer"_a)
      .def("head", &Network::head, "temporary"_a);
}
