#include "loops.h"

namespace everbit {

void epilogue_avx2(const EpilogueColumns& columns, const EpilogueRows& rows) { by_types(columns, rows); }

}  // namespace everbit
