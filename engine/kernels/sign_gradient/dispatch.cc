#include "../isa.h"
#include "sign_gradient.h"

namespace everbit {

void gradient_cells(const void* g, const SignGradientShape& shape, int32_t places, int8_t* cells) {
  constexpr KernelTable<GradientCells> kTable = {gradient_cells_scalar, nullptr, nullptr, EVERBIT_AMX(gradient_cells_amx)};
  kTable.active()(g, shape, places, cells);
}

void gradient_panel(const uint64_t* bits, const SignGradientShape& shape, int32_t w, int8_t* panel) {
  constexpr KernelTable<GradientPanel> kTable = {gradient_panel_scalar, nullptr, nullptr, EVERBIT_AMX(gradient_panel_amx)};
  kTable.active()(bits, shape, w, panel);
}

void gradient_sums(const int8_t* cells, const SignGradientShape& shape, const int64_t* offsets, const int8_t* panel, int32_t* room,
                   int32_t* sums) {
  constexpr KernelTable<GradientSums> kTable = {gradient_sums_scalar, nullptr, nullptr, EVERBIT_AMX(gradient_sums_amx)};
  kTable.active()(cells, shape, offsets, panel, room, sums);
}

}  // namespace everbit
