// The part of the bridge that low-memory training multiplies with: the products of one binary layer, on arrays of the caller.
#include "binding.h"

#include <nanobind/stl/array.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "bits.h"
#include "layers/binary_products.h"

using namespace nb::literals;

namespace everbit_python {
namespace {

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class BinaryProducts {
 public:
  using Sides = std::array<int32_t, 3>;  // height, width, channels
  using Geometry = std::array<int32_t, 5>;  // as Window

  BinaryProducts(const Sides& input, const Sides& output, const Geometry& window, int32_t pad_value, int32_t batch, int threads)
      : in_{input[0], input[1], input[2], 1, 0}, out_{output[0], output[1], output[2], 16, 0}, batch_(batch) {
    for (const int32_t size : {in_.height, in_.width, in_.channels, out_.height, out_.width, out_.channels}) {
      if (size < 1 || size > kMostSide) throw std::invalid_argument("a product's sides and channels are 1 to 65536");
    }
    const everbit::Window w{window[0], window[1], window[2], window[3], window[4]};
    require(products_.open(in_, out_, w, pad_value, batch, threads));
    taps_ = static_cast<size_t>(w.taps());
    scratch_.reset(static_cast<uint8_t*>(std::aligned_alloc(everbit::kAlignment, everbit::aligned(products_.scratch_bytes()))));
    if (scratch_ == nullptr) throw std::bad_alloc();
  }

  void sums(const In<uint64_t>& x, const In<uint64_t>& weights, const Out<int16_t>& z) {
    const int32_t images = images_of(z.size(), out_);
    require_size(x.size(), words(images));
    require_size(weights.size(), products_.weight_words());
    const nb::gil_scoped_release release;
    products_.sums(x.data(), weights.data(), images, scratch_.get(), z.data());
  }

  void input_gradient(const In<int16_t>& g, const In<uint64_t>& weights, const Out<int32_t>& dx) {
    const int32_t images = images_of(g.size(), out_);
    require_size(weights.size(), products_.weight_words());
    require_size(dx.size(), static_cast<size_t>(images) * elements(in_));
    const nb::gil_scoped_release release;
    products_.input_gradient(g.data(), weights.data(), images, scratch_.get(), dx.data());
  }

  void weight_gradient(const In<int16_t>& g, const In<uint64_t>& x, const Out<int32_t>& dw) {
    const int32_t images = images_of(g.size(), out_);
    require_size(x.size(), words(images));
    require_size(dw.size(), static_cast<size_t>(out_.channels) * taps_ * static_cast<size_t>(in_.channels));
    const nb::gil_scoped_release release;
    products_.weight_gradient(g.data(), x.data(), images, scratch_.get(), dw.data());
  }

  size_t scratch_bytes() const { return products_.scratch_bytes(); }

 private:
  static constexpr int32_t kMostSide = 65536;

  static size_t elements(const everbit::TensorRecord& t) {
    return static_cast<size_t>(t.height) * static_cast<size_t>(t.width) * static_cast<size_t>(t.channels);
  }
  size_t words(int32_t images) const {
    return static_cast<size_t>(images) * static_cast<size_t>(in_.pixels()) * static_cast<size_t>(everbit::words_for(in_.channels));
  }
  int32_t images_of(size_t size, const everbit::TensorRecord& t) const {
    const size_t images = size / elements(t);
    if (images < 1 || images > static_cast<size_t>(batch_) || images * elements(t) != size) {
      throw std::invalid_argument("a product takes whole images, no more than its batch");
    }
    return static_cast<int32_t>(images);
  }
  static void require_size(size_t size, size_t expected) {
    if (size != expected) throw std::invalid_argument("an array does not have the size of the product");
  }

  everbit::TensorRecord in_, out_;
  int32_t batch_;
  size_t taps_ = 0;
  everbit::BinaryProducts products_;
  Memory scratch_;
};

// The C library otherwise keeps what was freed for blocks to come, scattered: twice as much was seen in use.
void return_large_blocks() {
#if defined(__GLIBC__)
  constexpr int kLargeBlock = 1 << 19;
  mallopt(M_MMAP_THRESHOLD, kLargeBlock);
#endif
}

// Memory that is about to be written for the first time: a large page costs one fault instead of 512. Only whole ones inside are asked for.
void request_large_pages(const nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& memory) {
#if defined(MADV_HUGEPAGE)
  constexpr uintptr_t kLargePage = uintptr_t{1} << 21;
  const uintptr_t start = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t first = (start + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t last = (start + memory.size()) / kLargePage * kLargePage;
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

// What small blocks left free between others.
void return_free_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

void bind_products(nb::module_& m) {
  nb::class_<BinaryProducts>(m, "BinaryProducts")
      .def(nb::init<const BinaryProducts::Sides&, const BinaryProducts::Sides&, const BinaryProducts::Geometry&, int32_t, int32_t, int>(),
           "input"_a, "output"_a, "window"_a, "pad_value"_a, "batch"_a, "threads"_a)
      .def_prop_ro("scratch_bytes", [](const BinaryProducts& self) { return self.scratch_bytes(); })
      .def("sums", &BinaryProducts::sums, "x"_a, "weights"_a, "z"_a.noconvert())
      .def("input_gradient", &BinaryProducts::input_gradient, "g"_a, "weights"_a, "dx"_a.noconvert())
      .def("weight_gradient", &BinaryProducts::weight_gradient, "g"_a, "x"_a, "dw"_a.noconvert());
  m.def("return_large_blocks", &return_large_blocks,
        "From now on the C library gives blocks of 512 KiB and more back to the system as soon as they are freed, where it can.");
  m.def("request_large_pages", &request_large_pages, "memory"_a, "Asks the system for large pages, where it has them.");
  m.def("return_free_memory", &return_free_memory, "The C library gives back what is free now, where it can.");
}

}  // namespace everbit_python
