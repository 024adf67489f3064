// What the parts of the bridge share: memory, the checked program image, the conversion of arguments.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "layers/layers.h"
#include "learner/learner.h"

namespace nb = nanobind;

namespace everbit_python {

using Images = nb::ndarray<const uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Codes = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Free {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<uint8_t[], Free>;

// Zeros. Where the system offers large pages, memory begins on one and lies on as many as it fills: a learner's arena is walked in strides
// that small pages scatter over the caches, by luck more or less, and was measured 1.2 to 1.8 times as slow on them.
inline Memory allocate(size_t bytes) {
  constexpr size_t kLargePage = size_t{1} << 21;
  const size_t rounded = everbit::aligned(bytes == 0 ? 1 : bytes);
  const size_t large = rounded / kLargePage * kLargePage;
  void* start = nullptr;
  if (posix_memalign(&start, large == 0 ? everbit::kAlignment : kLargePage, rounded) != 0) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (large != 0) madvise(start, large, MADV_HUGEPAGE);
#endif
  std::memset(start, 0, rounded);
  return Memory(static_cast<uint8_t*>(start));
}

inline void require(const char* problem) {
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

inline everbit::Widths widths(const nb::dict& options) {
  return {nb::cast<int>(options["q_bin"]), nb::cast<int>(options["q_nonbin"])};
}

// Tests that look into a network need not say it.
inline int32_t threads(const nb::dict& options) { return options.contains("threads") ? nb::cast<int32_t>(options["threads"]) : 1; }

inline everbit::Scale to_scale(nb::handle pair) {
  const auto values = nb::cast<std::vector<int32_t>>(pair);
  return {values.at(0), values.at(1)};
}

inline void learning_rates(const nb::dict& options, everbit::Scale* rates) {
  size_t kind = 0;
  for (nb::handle rate : nb::list(options["learning_rates"])) {
    if (kind < everbit::kParameterKinds) rates[kind++] = to_scale(rate);
  }
}

inline void require_images(const everbit::Program& program, const Images& images) {
  const everbit::TensorRecord& t = program.input_tensor();
  if (images.shape(1) != static_cast<size_t>(t.height) || images.shape(2) != static_cast<size_t>(t.width) ||
      images.shape(3) != static_cast<size_t>(t.channels)) {
    throw std::invalid_argument("the images do not have the shape of the program's input");
  }
}

inline everbit::SamplerOptions sampler_options(const nb::dict& options) {
  everbit::SamplerOptions o{};
  o.classes = nb::cast<int32_t>(options["classes"]);
  o.replay_slots = nb::cast<int32_t>(options["replay_slots"]);
  o.replay_per_class = nb::cast<int32_t>(options["replay_per_class"]);
  o.experience_patterns = nb::cast<int32_t>(options["experience_patterns"]);
  o.batch_new = nb::cast<int32_t>(options["batch_new"]);
  o.batch_replayed = nb::cast<int32_t>(options["batch_replayed"]);
  o.count_replayed = nb::cast<bool>(options["count_replayed"]);
  return o;
}

// Adds the class Sampler to the module (binding_sampler.cc).
void bind_sampler(nb::module_& m);
// Adds the class Network to the module (binding_network.cc).
void bind_network(nb::module_& m);
// Adds the class BinaryProducts to the module (binding_products.cc).
void bind_products(nb::module_& m);
// Adds what the measurements of everbit.benchmarks need (binding_bench.cc).
void bind_bench(nb::module_& m);

}  // namespace everbit_python
