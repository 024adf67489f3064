#include "loops.h"

namespace everbit {

void epilogue_avx2(const EpilogueCall& call) { by_types(call); }

}  // namespace everbit
