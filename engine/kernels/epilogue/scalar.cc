#include "loops.h"

namespace everbit {

void epilogue_scalar(const EpilogueCall& call) { by_types(call); }

}  // namespace everbit
