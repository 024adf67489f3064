// The engine in Python. Every function converts arguments, calls the engine and converts back; no rule lives here.
#include "binding.h"

#include <nanobind/stl/string.h>

#include <mutex>
#include <string>

#include "c_api/handle.h"
#include "digest.h"
#include "kernels/isa.h"

using namespace nb::literals;

namespace {

using namespace everbit_python;
using everbit::Isa;

everbit::LearnerOptions learner_options(const nb::dict& options) {
  everbit::LearnerOptions o{sampler_options(options)};
  o.widths = widths(options);
  o.head_rule = nb::cast<bool>(options["cwr"]) ? everbit::HeadRule::kCwr : everbit::HeadRule::kPlain;
  o.train_body = nb::cast<bool>(options["train_body"]);
  o.threads = threads(options);
  o.stochastic_rounding = nb::cast<bool>(options["stochastic_rounding"]);
  o.seed = nb::cast<uint64_t>(options["seed"]);
  learning_rates(options, o.learning_rates);
  return o;
}

// One thread at a time inside; the others wait without holding up Python.
class Learner {
 public:
  Learner(const nb::bytes& image, const nb::dict& options) : image_(image) {
    const everbit::LearnerOptions o = learner_options(options);
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

  void add_latents(const Codes& latents, const Labels& labels) {
    require_latents(latents);
    if (latents.shape(0) != labels.shape(0)) throw std::invalid_argument("as many labels as latents are needed");
    alone([&] {
      for (size_t i = 0; i < latents.shape(0); ++i) {
        require(learner_.add_latent(latents.data() + i * latents.shape(1), labels.data()[i]));
      }
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

  nb::object encode(const Images& images) {
    require_images(image_.program, images);
    const size_t count = images.shape(0), bytes = everbit::latent_bytes(image_.program);
    const size_t pixels = images.shape(1) * images.shape(2) * images.shape(3);
    std::vector<uint8_t> codes(count * bytes);
    alone([&] {
      for (size_t i = 0; i < count; ++i) learner_.encode(images.data() + i * pixels, codes.data() + i * bytes);
    });
    return array_of(std::move(codes), {count, bytes});
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

  nb::object latent_logits(const Codes& latents) {
    require_latents(latents);
    const size_t count = latents.shape(0), classes = static_cast<size_t>(classes_);
    std::vector<int32_t> out(count * classes);
    alone([&] {
      for (size_t i = 0; i < count; ++i) learner_.latent_logits(latents.data() + i * latents.shape(1), out.data() + i * classes);
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
      const char* problem = learner_.restore();
      if (problem != nullptr) learner_.start(arena_.get(), workspace_.get());  // an impossible state must not be learned from
      require(problem);
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

  // Fills the memory that layers share, which holds nothing between two calls: what learning leaves of it was never touched.
  void paint(uint8_t color) {
    alone([&] { std::memset(shared(), color, learner_.memory().shared); });
  }

  // Bytes of the arena up to the last one that has lost the color.
  size_t touched(uint8_t color) const {
    return alone([&] {
      size_t bytes = learner_.memory().total;
      while (arena_.get() + bytes > shared() && arena_[bytes - 1] == color) --bytes;
      return bytes;
    });
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

  // It ends the arena.
  uint8_t* shared() const { return arena_.get() + learner_.memory().total - learner_.memory().shared; }

  void require_latents(const Codes& latents) const {
    if (latents.shape(1) != everbit::latent_bytes(image_.program)) {
      throw std::invalid_argument("these latents are not of this program: encode() writes them");
    }
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

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(Isa::kCount); ++i) {
    if (everbit::isa_available(static_cast<Isa>(i))) names.emplace_back(everbit::isa_name(static_cast<Isa>(i)));
  }
  return names;
}

uint64_t digest(const nb::bytes& bytes) {
  everbit::Digest digest;
  digest.add(reinterpret_cast<const uint8_t*>(bytes.c_str()), bytes.size());
  return digest.value();
}

// A learner of the C API, planned for a processor that has scalar kernels alone.
struct Planned {
  Planned(const nb::bytes& image, const nb::dict& options, size_t address_bytes) : opened(image) {
    const everbit::Processor processor = everbit::scalar_processor(address_bytes);
    workspace = allocate(everbit::Learner::workspace_bytes(opened.program));
    require(learner.plan(opened.program, learner_options(options), workspace.get(), use, processor));
    memory = everbit::c_api::memory_of(use, everbit::Learner::workspace_bytes(opened.program, processor));
  }

  const ProgramImage opened;
  Memory workspace;
  everbit::Learner learner;
  everbit::MemoryUse use{};
  everbit_memory memory{};
};

// What it takes, by purpose.
nb::dict planned_memory(const nb::bytes& image, const nb::dict& options, size_t address_bytes) {
  const everbit_memory planned = Planned(image, options, address_bytes).memory;
  nb::dict out;
  out["state"] = planned.state;
  out["replay"] = planned.replay;
  out["experience"] = planned.experience;
  out["fixed"] = planned.fixed;
  out["shared"] = planned.shared;
  out["handle"] = planned.handle;
  out["total"] = planned.total;
  return out;
}

// The blocks of its shared memory, in the order of Network::block_count(): bytes, first and last moment, offset.
nb::list planned_blocks(const nb::bytes& image, const nb::dict& options, size_t address_bytes) {
  const Planned planned(image, options, address_bytes);
  const auto* blocks = reinterpret_cast<const everbit::Block*>(planned.workspace.get());
  nb::list out;
  for (size_t i = 0; i < everbit::Network::block_count(planned.opened.program); ++i) {
    out.append(nb::make_tuple(blocks[i].bytes, blocks[i].first, blocks[i].last, blocks[i].offset));
  }
  return out;
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
  m.attr("red_zone") = everbit::kRedZone;
  m.def("available_isas", &available_isas, "Instruction sets this processor can run, scalar first.");
  m.def("active_isa", [] { return std::string(everbit::isa_name(everbit::active_isa())); }, "The instruction set in use.");
  m.def("select_isa", &select_isa, "name"_a, "Uses another instruction set; False where the processor lacks it.");
  m.def("check_program", [](const nb::bytes& image) { ProgramImage checked(image); }, "image"_a,
        "Raises ValueError, with what is wrong, unless the bytes are a sound program image.");

  m.def("digest", &digest, "bytes"_a, "The digest of engine/digest.h.");
  m.def("planned_memory", &planned_memory, "image"_a, "options"_a, "address_bytes"_a,
        "Bytes by purpose that a learner of the C API takes where addresses have 4 or 8 bytes and kernels are scalar.");
  m.def("planned_blocks", &planned_blocks, "image"_a, "options"_a, "address_bytes"_a,
        "Blocks (bytes, first moment, last moment, offset) of that learner's shared memory, which everbit.plan.memory names.");

  nb::class_<Learner>(m, "Learner")
      .def(nb::init<const nb::bytes&, const nb::dict&>(), "image"_a, "options"_a)
      .def("add", &Learner::add, "images"_a, "labels"_a)
      .def("add_latents", &Learner::add_latents, "latents"_a, "labels"_a)
      .def("begin_training", &Learner::begin_training, "epochs"_a)
      .def("train_step", &Learner::train_step)
      .def("end_experience", &Learner::end_experience)
      .def("encode", &Learner::encode, "images"_a)
      .def("logits", &Learner::logits, "images"_a)
      .def("latent_logits", &Learner::latent_logits, "latents"_a)
      .def("known", &Learner::known, "label"_a)
      .def("state", &Learner::state)
      .def("restore", &Learner::restore, "state"_a)
      .def("memory", &Learner::memory)
      .def("paint", &Learner::paint, "color"_a)
      .def("touched", &Learner::touched, "color"_a)
      .def("replay", &Learner::replay);

  everbit_python::bind_sampler(m);
  everbit_python::bind_network(m);
  everbit_python::bind_products(m);
  everbit_python::bind_bench(m);
}
