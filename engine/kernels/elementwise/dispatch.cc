#include "../../bits.h"
#include "../../memory.h"
#include "../../parallel.h"
#include "../isa.h"
#include "elementwise.h"

namespace everbit {

#define EVERBIT_DECLARE(isa)              \
  namespace elementwise_##isa {           \
  void affine(const AffineCall&);         \
  void add(const AddCall&);               \
  void sign(const SignCall&);             \
  void requantize(const RequantizeCall&); \
  void norm(const NormCall&);             \
  void prelu(const PreluCall&);           \
  void maximum(const MaximumCall&);       \
  void shift(const ShiftCall&);           \
  void image(const ImageCall&);           \
  void weights(const WeightsCall&);       \
  void weight_sums(WeightSumsCall&);      \
  }
EVERBIT_DECLARE(scalar)
EVERBIT_DECLARE(avx2)
EVERBIT_DECLARE(avx512)
EVERBIT_DECLARE(neon)
#define EVERBIT_TABLE(name)                                             \
  {elementwise_scalar::name, EVERBIT_X86(elementwise_avx2::name), \
   EVERBIT_X86(elementwise_avx512::name), nullptr, EVERBIT_NEON(elementwise_neon::name)}

namespace {

AffineCall part_of(const AffineCall& call, int64_t first, int64_t last) {
  AffineCall part = call;
  part.x = element_at(call.x, first * call.channels, call.x_bits);
  part.y = element_at(call.y, first * call.channels, call.y_bits);
  part.pixels = static_cast<int32_t>(last - first);
  return part;
}

}  // namespace

void affine_loop(const AffineCall& call, int threads) {
  constexpr KernelTable<void(const AffineCall&)> kTable = EVERBIT_TABLE(affine);
  parallel_for(threads, call.pixels, kElementGrain / call.channels, [&](int64_t first, int64_t last, int) {
    kTable.active()(part_of(call, first, last));
  });
}

void add_loop(const AddCall& call, int threads) {
  constexpr KernelTable<void(const AddCall&)> kTable = EVERBIT_TABLE(add);
  parallel_for(threads, call.count, kElementGrain, [&](int64_t first, int64_t last, int) {
    AddCall part = call;
    part.x0 = element_at(call.x0, first, call.x0_bits);
    part.x1 = element_at(call.x1, first, call.x1_bits);
    part.y = element_at(call.y, first, call.y_bits);
    part.count = static_cast<int32_t>(last - first);
    kTable.active()(part);
  });
}

void sign_loop(const SignCall& call, int threads) {
  constexpr KernelTable<void(const SignCall&)> kTable = EVERBIT_TABLE(sign);
  parallel_for(threads, call.pixels, kElementGrain / call.channels, [&](int64_t first, int64_t last, int) {
    SignCall part = call;
    part.x = element_at(call.x, first * call.channels, call.x_bits);
    part.words += first * words_for(call.channels);
    part.pixels = static_cast<int32_t>(last - first);
    kTable.active()(part);
  });
}

void requantize_loop(const RequantizeCall& call, int threads) {
  constexpr KernelTable<void(const RequantizeCall&)> kTable = EVERBIT_TABLE(requantize);
  parallel_for(threads, call.pixels, kElementGrain / call.channels, [&](int64_t first, int64_t last, int) {
    RequantizeCall part = call;
    part.sums += first * call.channels;
    part.y = element_at(call.y, first * call.channels, call.y_bits);
    part.pixels = static_cast<int32_t>(last - first);
    kTable.active()(part);
  });
}

void norm_loop(const NormCall& call, int threads) {
  constexpr KernelTable<void(const NormCall&)> kTable = EVERBIT_TABLE(norm);
  const int32_t channels = call.affine.channels;
  parallel_for(threads, call.affine.pixels, kElementGrain / channels, [&](int64_t first, int64_t last, int) {
    NormCall part = call;
    part.affine = part_of(call.affine, first, last);
    if (call.xhat != nullptr) part.xhat += first * channels;
    kTable.active()(part);
  });
}

void prelu_loop(const PreluCall& call, int threads) {
  constexpr KernelTable<void(const PreluCall&)> kTable = EVERBIT_TABLE(prelu);
  parallel_for(threads, call.pixels, kElementGrain / call.channels, [&](int64_t first, int64_t last, int) {
    PreluCall part = call;
    part.x = element_at(call.x, first * call.channels, call.x_bits);
    part.y = element_at(call.y, first * call.channels, call.y_bits);
    part.pixels = static_cast<int32_t>(last - first);
    kTable.active()(part);
  });
}

void maximum_loop(const MaximumCall& call) {
  constexpr KernelTable<void(const MaximumCall&)> kTable = EVERBIT_TABLE(maximum);
  kTable.active()(call);
}

void shift_loop(const ShiftCall& call) {
  constexpr KernelTable<void(const ShiftCall&)> kTable = EVERBIT_TABLE(shift);
  kTable.active()(call);
}

void image_loop(const ImageCall& call) {
  constexpr KernelTable<void(const ImageCall&)> kTable = EVERBIT_TABLE(image);
  kTable.active()(call);
}

void weights_loop(const WeightsCall& call) {
  constexpr KernelTable<void(const WeightsCall&)> kTable = EVERBIT_TABLE(weights);
  kTable.active()(call);
}

void weight_sums_loop(WeightSumsCall& call) {
  constexpr KernelTable<void(WeightSumsCall&)> kTable = EVERBIT_TABLE(weight_sums);
  kTable.active()(call);
}

}  // namespace everbit
