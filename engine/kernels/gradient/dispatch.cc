#include "../../memory.h"
#include "../../parallel.h"
#include "../isa.h"
#include "gradient.h"

namespace everbit {

#define EVERBIT_DECLARE(isa)                      \
  namespace gradient_##isa {                      \
  uint32_t magnitude(const int32_t*, size_t);     \
  void narrow(const NarrowCall&);                 \
  void merge(const MergeCall&);                   \
  void estimator(const EstimatorCall&);           \
  void channel_sum(const ChannelSumCall&);        \
  void norm_gradient(const NormGradientCall&);    \
  void prelu_gradient(const PreluGradientCall&);  \
  uint64_t update(const UpdateCall&);             \
  void mask(const MaskCall&);                     \
  }
EVERBIT_DECLARE(scalar)
EVERBIT_DECLARE(avx2)
EVERBIT_DECLARE(avx512)
EVERBIT_DECLARE(neon)
#define EVERBIT_TABLE(name)                                             \
  {gradient_scalar::name, EVERBIT_X86(gradient_avx2::name), \
   EVERBIT_X86(gradient_avx512::name), nullptr, EVERBIT_NEON(gradient_neon::name)}

uint32_t magnitude_loop(const int32_t* sums, size_t count, int threads) {
  constexpr KernelTable<uint32_t(const int32_t*, size_t)> kTable = EVERBIT_TABLE(magnitude);
  uint32_t all = 0;
  parallel_for(threads, static_cast<int64_t>(count), kElementGrain, [&](int64_t first, int64_t last, int) {
    join_or(all, kTable.active()(sums + first, static_cast<size_t>(last - first)));
  });
  return all;
}

void narrow_loop(const NarrowCall& call, int threads) {
  constexpr KernelTable<void(const NarrowCall&)> kTable = EVERBIT_TABLE(narrow);
  parallel_for(threads, static_cast<int64_t>(call.count), kElementGrain, [&](int64_t first, int64_t last, int) {
    NarrowCall part = call;
    part.sums += first;
    part.count = static_cast<size_t>(last - first);
    part.values = element_at(call.values, first, call.bits);
    kTable.active()(part);
  });
}

void merge_loop(const MergeCall& call, int threads) {
  constexpr KernelTable<void(const MergeCall&)> kTable = EVERBIT_TABLE(merge);
  parallel_for(threads, static_cast<int64_t>(call.count), kElementGrain, [&](int64_t first, int64_t last, int) {
    MergeCall part = call;
    part.sums += first;
    part.count = static_cast<size_t>(last - first);
    part.before = element_at(call.before, first, call.bits);
    kTable.active()(part);
  });
}

void estimator_loop(const EstimatorCall& call, int threads) {
  constexpr KernelTable<void(const EstimatorCall&)> kTable = EVERBIT_TABLE(estimator);
  parallel_for(threads, call.pixels, kElementGrain / call.channels, [&](int64_t first, int64_t last, int) {
    EstimatorCall part = call;
    part.x = element_at(call.x, first * call.channels, call.x_bits);
    part.g = element_at(call.g, first * call.channels, call.g_bits);
    part.sums += first * call.channels;
    part.pixels = static_cast<int32_t>(last - first);
    kTable.active()(part);
  });
}

void channel_sum_loop(const ChannelSumCall& call) {
  constexpr KernelTable<void(const ChannelSumCall&)> kTable = EVERBIT_TABLE(channel_sum);
  kTable.active()(call);
}

void norm_gradient_loop(const NormGradientCall& call) {
  constexpr KernelTable<void(const NormGradientCall&)> kTable = EVERBIT_TABLE(norm_gradient);
  kTable.active()(call);
}

void prelu_gradient_loop(const PreluGradientCall& call) {
  constexpr KernelTable<void(const PreluGradientCall&)> kTable = EVERBIT_TABLE(prelu_gradient);
  kTable.active()(call);
}

uint64_t update_loop(const UpdateCall& call) {
  constexpr KernelTable<uint64_t(const UpdateCall&)> kTable = EVERBIT_TABLE(update);
  return kTable.active()(call);
}

void mask_loop(const MaskCall& call) {
  constexpr KernelTable<void(const MaskCall&)> kTable = EVERBIT_TABLE(mask);
  kTable.active()(call);
}

}  // namespace everbit
