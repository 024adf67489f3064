#include "loops.h"

namespace everbit {

void short_requantize_scalar(const ShortRequantizeCall& call) { by_type(call); }

}  // namespace everbit
