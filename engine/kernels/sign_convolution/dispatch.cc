#include "../isa.h"
#include "sign_convolution.h"

namespace everbit {

#if defined(EVERBIT_HAS_AMX)
void sign_tiles_begin_amx();
void sign_tiles_end_amx();
#endif

bool sign_convolution_is_fast() { return active_isa() == Isa::kAmx; }

void sign_cells(const uint64_t* bits, int32_t channels, int32_t pixels, int64_t plane, int8_t* cells) {
  constexpr KernelTable<SignCells> kTable = {sign_cells_scalar, nullptr, nullptr, EVERBIT_AMX(sign_cells_amx)};
  kTable.active()(bits, channels, pixels, plane, cells);
}

void sign_panel(const SignColumns& columns, int8_t* panel) {
  constexpr KernelTable<SignPanel> kTable = {sign_panel_scalar, nullptr, nullptr, EVERBIT_AMX(sign_panel_amx)};
  kTable.active()(columns, panel);
}

void sign_sums(const int8_t* map, const int64_t* offsets, int32_t steps, const int8_t* panel, int32_t places, int32_t* sums,
               const Interlude& interlude) {
  constexpr KernelTable<SignSums> kTable = {sign_sums_scalar, nullptr, nullptr, EVERBIT_AMX(sign_sums_amx)};
  kTable.active()(map, offsets, steps, panel, places, sums, interlude);
}

void sign_sums_once(const int8_t* map, const int64_t* offsets, const SignColumns& columns, int8_t* panel, int32_t places, int32_t* sums,
                    const Interlude& interlude) {
#if defined(EVERBIT_HAS_AMX)
  if (sign_convolution_is_fast()) return sign_sums_once_amx(map, offsets, columns, panel, places, sums, interlude);
#endif
  sign_panel(columns, panel);
  sign_sums(map, offsets, columns.steps(), panel, places, sums, interlude);
}

void sign_tiles_begin() {
#if defined(EVERBIT_HAS_AMX)
  if (sign_convolution_is_fast()) sign_tiles_begin_amx();
#endif
}

void sign_tiles_end() {
#if defined(EVERBIT_HAS_AMX)
  if (sign_convolution_is_fast()) sign_tiles_end_amx();
#endif
}

}  // namespace everbit
