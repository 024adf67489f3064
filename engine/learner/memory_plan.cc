#include "memory_plan.h"

namespace everbit {
namespace {

size_t room_of(const Block& block) { return saturating_sum(aligned(block.bytes), kRedZone); }

bool collide(const Block& a, size_t at, const Block& b) {
  return b.placed && b.bytes != 0 && a.first <= b.last && b.first <= a.last && at < b.offset + room_of(b) &&
         b.offset < at + room_of(a);
}

size_t lowest_place(const Block* blocks, size_t count, const Block& block) {
  size_t at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < count; ++i) {
      if (!collide(block, at, blocks[i])) continue;
      at = blocks[i].offset + room_of(blocks[i]);
      moved = true;
    }
  }
  return at;
}

}  // namespace

size_t place_blocks(Block* blocks, size_t count) {
  size_t total = 0;
  for (size_t done = 0; done < count; ++done) {
    Block* next = nullptr;
    for (size_t i = 0; i < count; ++i) {
      if (!blocks[i].placed && (next == nullptr || blocks[i].bytes > next->bytes)) next = &blocks[i];
    }
    next->offset = lowest_place(blocks, count, *next);
    next->placed = true;
    const size_t end = saturating_sum(next->offset, room_of(*next));
    if (end == kUnaddressable) return kUnaddressable;
    total = end > total ? end : total;
  }
  return total;
}

}  // namespace everbit
