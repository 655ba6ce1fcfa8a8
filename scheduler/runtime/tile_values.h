// Which values of a chain no more than one tile needs: each thread keeps the rows of the tile that
// it runs in memory of its own, which stays in its core's cache, and the value's bytes in the arena
// are left alone. Internal to the runtime.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/plan/plan.h"

namespace leat {

// Members with more operands keep them in the arena.
inline constexpr size_t kMostTileOperands = 16;

// The rows of one tile begin `offset` bytes into the thread's tile memory.
struct TileValue {
  uint32_t value = kNone;   // whose aliases are meant too
  uint64_t tile_bytes = 0;  // of the rows of one tile
  uint64_t offset = 0;
};
struct TileValues {
  std::vector<TileValue> values;  // ascending by value
  uint64_t bytes = 0;             // tile memory that they need
};

// The instructions that touch each value, from the first to the last: found once, for all chains.
class ValueUses {
 public:
  explicit ValueUses(const Partition& partition);
  // Is the root touched by [first, last) alone, and never fed?
  bool only_within(uint32_t root, uint32_t first, uint32_t last) const {
    return first_[root] >= first && last_[root] < last;
  }

 private:
  std::vector<uint32_t> first_, last_;  // by root; a feed is used by 0, and without end
};

// For the chain of instructions [first, last): values that only its members touch, and those in
// their row phases, row by row. Values whose lives do not meet share bytes. A function of the plan
// alone.
TileValues find_tile_values(const Partition& partition, const ValueUses& uses, uint32_t first,
                            uint32_t last);

// An operand of a member that is such a value.
struct TileOperand {
  bool output = false;
  uint32_t index = 0;  // among the inputs or outputs
  uint64_t tile_bytes = 0, offset = 0;

  // What the kernel is given as the operand's first row, so that it finds the rows of `tile` at the
  // beginning of the value's tile memory.
  void* address(std::byte* tile_memory, uint32_t tile) const {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(tile_memory) + offset -
                                   tile * tile_bytes);
  }
};
std::vector<TileOperand> tile_operands(const Partition& partition,
                                       const PlanInstruction& instruction,
                                       const TileValues& values);

}  // namespace leat
