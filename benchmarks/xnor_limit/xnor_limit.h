// What a processor could do at best: the xor, popcount and add of xnor_gemm on registers alone, without a load or a store. The kernel's
// share of it is what its loads, its stores and its loop leave.
//
// The vector limits are written in assembly, so that no compiler can shorten work whose result nobody reads; what the registers hold
// does not matter, and there are sums enough that no latency shows.
#pragma once

#include <cstdint>

namespace everbit_bench {

// Multiplies at least `words` pairs of 64-bit words.
using XnorLimit = void(int64_t words);

XnorLimit xnor_limit_scalar;
XnorLimit xnor_limit_avx2;
XnorLimit xnor_limit_avx512;
XnorLimit xnor_limit_neon;

// That of the engine's active instruction set; nullptr where none is written.
XnorLimit* active_xnor_limit();

}  // namespace everbit_bench
