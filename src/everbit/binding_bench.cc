// The part of the bridge that measurements use: what is too small to be called, or too deep to be seen, from Python.
#include "binding.h"

#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 33)
#include <malloc.h>
#define EVERBIT_HAS_MALLINFO2
#endif
#endif

#include "bits.h"
#include "kernels/xnor_gemm/xnor_gemm.h"
#include "random.h"
#include "xnor_limit.h"

using namespace nb::literals;

namespace everbit_python {
namespace {

// Operands of one product of random bits.
class XnorGemm {
 public:
  XnorGemm(int32_t rows, int32_t K, int32_t columns) : rows_(rows), K_(K), columns_(columns), words_(everbit::words_for(K)) {
    if (rows < 1 || columns < 1 || K < 1 || K > 32767 || K % 64 != 0) {
      throw std::invalid_argument("a product to be timed needs rows, columns, and whole words of at most 32767 bits");
    }
    const size_t a = static_cast<size_t>(rows) * static_cast<size_t>(words_);
    const size_t b = static_cast<size_t>((columns + 7) / 8 * 8) * static_cast<size_t>(words_);
    operands_ = allocate((a + b) * sizeof(uint64_t) + everbit::kAlignment);
    product_ = allocate(static_cast<size_t>(rows) * static_cast<size_t>(columns) * sizeof(int16_t));
    everbit::Region region{operands_.get()};
    a_ = region.take<uint64_t>(a);
    b_ = region.take<uint64_t>(b);
    everbit::Random random{0};
    for (size_t i = 0; i < a; ++i) a_[i] = random.next();
    for (size_t i = 0; i < b; ++i) b_[i] = random.next();
  }

  void run(int32_t calls) const {
    for (int32_t i = 0; i < calls; ++i) {
      everbit::xnor_gemm(a_, rows_, words_, b_, columns_, K_, reinterpret_cast<int16_t*>(product_.get()));
    }
  }

 private:
  int32_t rows_, K_, columns_, words_;
  Memory operands_, product_;
  uint64_t* a_ = nullptr;
  uint64_t* b_ = nullptr;
};

bool run_xnor_limit(int64_t words) {
  everbit_bench::XnorLimit* limit = everbit_bench::active_xnor_limit();
  if (limit != nullptr) limit(words);
  return limit != nullptr;
}

// Bytes of the heap in use, or None where the C library does not say.
nb::object heap_bytes() {
#if defined(EVERBIT_HAS_MALLINFO2)
  const struct mallinfo2 info = mallinfo2();
  return nb::cast(info.uordblks + info.hblkhd);
#else
  return nb::none();
#endif
}

}  // namespace

void bind_bench(nb::module_& m) {
  nb::class_<XnorGemm>(m, "XnorGemm")
      .def(nb::init<int32_t, int32_t, int32_t>(), "rows"_a, "K"_a, "columns"_a)
      .def("run", &XnorGemm::run, "calls"_a, "Calls the kernel so many times.");
  m.def("run_xnor_limit", &run_xnor_limit, "words"_a,
        "Multiplies so many pairs of 64-bit words on registers alone; False where the active instruction set has no such loop.");
  m.def("heap_bytes", &heap_bytes, "Bytes of the heap in use; None where the C library does not say.");
}

}  // namespace everbit_python
