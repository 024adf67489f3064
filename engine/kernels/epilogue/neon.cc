#include "loops.h"

namespace everbit {

void epilogue_neon(const EpilogueCall& call) { by_types(call); }

}  // namespace everbit
