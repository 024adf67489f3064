// The engine's sampler alone, for a learner in other arithmetic that is to see the same mini-batches.
#include "binding.h"

using namespace nb::literals;

namespace everbit_python {
namespace {

class Sampler {
 public:
  Sampler(const nb::dict& options, size_t pattern_bytes) : options_(sampler_options(options)), pattern_bytes_(pattern_bytes) {
    require(everbit::Sampler::check(options_));
    everbit::Region persistent{nullptr, 0, 0}, fixed;
    plan(persistent, fixed);
    persistent_bytes_ = persistent.used;
    memory_ = allocate(persistent.used + fixed.used);
    fixed = {memory_.get() + persistent.used};
    persistent = {memory_.get(), 0, 0};
    plan(persistent, fixed);
    sampler_.start();
    random_->state = nb::cast<uint64_t>(options["seed"]);
  }

  void add(const Codes& patterns, const Labels& labels) {
    if (patterns.shape(1) != pattern_bytes_) throw std::invalid_argument("these patterns have another number of bytes");
    if (patterns.shape(0) != labels.shape(0)) throw std::invalid_argument("as many labels as patterns are needed");
    for (size_t i = 0; i < patterns.shape(0); ++i) {
      require(sampler_.check_new(labels.data()[i]));
      std::memcpy(sampler_.next(), patterns.data() + i * pattern_bytes_, pattern_bytes_);
      sampler_.add(labels.data()[i]);
    }
  }

  int64_t begin(int32_t epochs) {
    if (sampler_.size() == 0 || epochs < 1) throw std::invalid_argument("an experience needs patterns and at least one epoch");
    if (sampler_.begun()) throw std::invalid_argument("the experience has begun already");
    return sampler_.begin(epochs, *random_);
  }

  nb::object present() const {
    require_begun();
    return array_of(std::vector<uint8_t>(sampler_.present(), sampler_.present() + options_.classes), {classes()});
  }

  nb::object counts() const {
    require_begun();
    return array_of(std::vector<int64_t>(sampler_.counts(), sampler_.counts() + options_.classes), {classes()});
  }

  nb::tuple draw() {
    require_begun();
    const everbit::Sampler::Batch batch = sampler_.draw(*random_);
    const size_t size = static_cast<size_t>(batch.size);
    std::vector<uint8_t> patterns;
    patterns.reserve(size * pattern_bytes_);
    for (size_t i = 0; i < size; ++i) patterns.insert(patterns.end(), batch.patterns[i], batch.patterns[i] + pattern_bytes_);
    return nb::make_tuple(array_of(std::move(patterns), {size, pattern_bytes_}),
                          array_of(std::vector<int64_t>(batch.labels, batch.labels + size), {size}));
  }

  void end() {
    require_begun();
    sampler_.end(*random_);
  }

  nb::object state() const {
    return array_of(std::vector<uint8_t>(memory_.get(), memory_.get() + persistent_bytes_), {persistent_bytes_});
  }

  void restore(const Bytes& state) {
    if (state.shape(0) != persistent_bytes_) throw std::invalid_argument("the state belongs to another sampler");
    std::memcpy(memory_.get(), state.data(), persistent_bytes_);
    const char* problem = sampler_.restore();
    if (problem != nullptr) sampler_.start();  // an impossible memory must not be drawn from
    require(problem);
  }

  size_t replay_bytes() const { return sampler_.replay().bytes(); }

 private:
  void plan(everbit::Region& persistent, everbit::Region& fixed) {
    random_ = persistent.take<everbit::Random>(1);
    sampler_.plan_replay(options_, pattern_bytes_, persistent);
    sampler_.plan_batches(fixed);
    sampler_.plan_experience(fixed);
  }

  size_t classes() const { return static_cast<size_t>(options_.classes); }

  void require_begun() const {
    if (!sampler_.begun()) throw std::invalid_argument("no experience has begun");
  }

  everbit::SamplerOptions options_;
  size_t pattern_bytes_;
  size_t persistent_bytes_ = 0;
  Memory memory_;
  everbit::Random* random_ = nullptr;
  everbit::Sampler sampler_;
};

}  // namespace

void bind_sampler(nb::module_& m) {
  nb::class_<Sampler>(m, "Sampler")
      .def(nb::init<const nb::dict&, size_t>(), "options"_a, "pattern_bytes"_a)
      .def("add", &Sampler::add, "patterns"_a, "labels"_a)
      .def("begin", &Sampler::begin, "epochs"_a)
      .def("present", &Sampler::present)
      .def("counts", &Sampler::counts)
      .def("draw", &Sampler::draw)
      .def("end", &Sampler::end)
      .def("state", &Sampler::state)
      .def("restore", &Sampler::restore, "state"_a)
      .def_prop_ro("replay_bytes", &Sampler::replay_bytes);
}

}  // namespace everbit_python
