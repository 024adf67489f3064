#include <cstring>

#include "../isa.h"
#include "packed_gemm.h"

namespace everbit {

bool packed_gemm_is_fast() { return active_isa() == Isa::kAvx512 || active_isa() == Isa::kAmx; }

void pack_weights(const int8_t* w, int32_t segments, int32_t length, int32_t columns, int32_t bits, uint32_t* packed) {
  const int32_t step = packed_step(bits);
  const uint32_t mask = bits == 8 ? 0xff : 0xffff;
  for (int32_t block = 0; block < columns; block += kPackedColumns) {
    for (int32_t s = 0; s < segments; ++s) {
      for (int32_t first = 0; first < length; first += step) {
        for (int32_t n = block; n < block + kPackedColumns; ++n) {
          uint32_t word = 0;
          const int8_t* from = w + (int64_t{n} * segments + s) * length;
          if (bits == 8 && n < columns && first + step <= length) {
            std::memcpy(&word, from + first, sizeof word);
          } else {
            for (int32_t k = first; n < columns && k < first + step && k < length; ++k) {
              word |= (static_cast<uint32_t>(int32_t{from[k]}) & mask) << ((k - first) * bits);
            }
          }
          *packed++ = word;
        }
      }
    }
  }
}

void packed_gemm(const PackedGemmCall& call) {
  constexpr KernelTable<PackedGemm> kTable = {packed_gemm_scalar, nullptr, EVERBIT_X86(packed_gemm_avx512)};
  kTable.active()(call);
}

}  // namespace everbit
