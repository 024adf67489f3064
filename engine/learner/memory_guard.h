// What one call may touch of the memory that layers share. While a guard lives, the address sanitizer stops whoever touches a block that
// is not open: another's, one that does not live at this moment, or the red zones between. In other builds it does nothing.
#pragma once

#include "memory_plan.h"

namespace everbit {

class MemoryGuard {
 public:
  // moment: of the call, in the lives of the blocks.
  MemoryGuard(uint8_t* shared, size_t bytes, int32_t moment) : shared_(shared), bytes_(bytes), moment_(moment) { forbid(shared_, bytes_); }
  ~MemoryGuard() { allow(shared_, bytes_); }
  MemoryGuard(const MemoryGuard&) = delete;
  MemoryGuard& operator=(const MemoryGuard&) = delete;

  void open(const Block& block) const {
    if (block.first <= moment_ && moment_ <= block.last) allow(shared_ + block.offset, block.bytes);
  }

 private:
  uint8_t* shared_;
  size_t bytes_;
  int32_t moment_;
};

}  // namespace everbit
