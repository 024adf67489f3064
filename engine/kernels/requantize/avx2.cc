#include "loops.h"

namespace everbit {

void short_requantize_avx2(const ShortRequantizeCall& call) { by_type(call); }

}  // namespace everbit
