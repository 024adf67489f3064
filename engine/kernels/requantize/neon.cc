#include "loops.h"

namespace everbit {

void short_requantize_neon(const ShortRequantizeCall& call) { by_type(call); }

}  // namespace everbit
