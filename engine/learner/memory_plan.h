// Where blocks of memory lie whose lives are known: two blocks may share bytes when they never live at the same moment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../memory.h"

namespace everbit {

struct Block {
  size_t bytes = 0;
  int32_t first = 0;  // moments of its life, both included
  int32_t last = 0;
  size_t offset = 0;  // the answer
  bool placed = false;
};

struct BlockWith32BitAddresses {
  uint32_t bytes;
  int32_t moments[2];
  uint32_t offset;
  bool placed;
};
template <>
struct With32BitAddresses<Block> {
  using Type = BlockWith32BitAddresses;
};
static_assert(sizeof(void*) != 4 || sizeof(Block) == sizeof(BlockWith32BitAddresses));

// Gives every block an aligned offset; returns the bytes of the whole, kUnaddressable where they are too many. Greedy: the
// largest block first, each as low as it can lie.
size_t place_blocks(Block* blocks, size_t count);

}  // namespace everbit
