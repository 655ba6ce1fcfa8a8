// Finds the values of a chain that only one tile at a time needs. Each thread keeps the rows of the
// tile that it runs in memory of its own, which stays in its core's cache, and does not touch the
// value's bytes in the arena. Internal to the runtime; all functions are pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/plan/plan.h"

namespace leat {

// A chain's member with more operands than this keeps them in the arena.
inline constexpr size_t kMostTileOperands = 16;

// The rows of one tile begin `offset` bytes into the thread's tile memory.
struct TileValue {
  uint32_t value = kNone;   // a root, which stands for its aliases, too
  uint64_t tile_bytes = 0;  // the size of the rows of one tile
  uint64_t offset = 0;
};
struct TileValues {
  std::vector<TileValue> values;  // ascending by value
  uint64_t bytes = 0;             // the tile memory that they need
};

// The first and the last instruction that touch each value. One object serves all chains of a
// partition.
class ValueUses {
 public:
  explicit ValueUses(const Partition& partition);
  // True if only the instructions [first, last) touch the root and its aliases, and it is not fed.
  bool only_within(uint32_t root, uint32_t first, uint32_t last) const {
    return first_[root] >= first && last_[root] < last;
  }

 private:
  std::vector<uint32_t> first_, last_;  // by root; a feed is used from 0 without end
};

// Finds such values of the chain of instructions [first, last): only its members touch them, only
// in their row phases, and row by row. Gives each an offset; values whose lives do not meet share
// bytes.
TileValues find_tile_values(const Partition& partition, const ValueUses& uses, uint32_t first,
                            uint32_t last);

// An operand of a chain's member that is such a value.
struct TileOperand {
  bool output = false;
  uint32_t index = 0;  // among the inputs or outputs
  uint64_t tile_bytes = 0, offset = 0;

  // The address that the kernel gets for the operand's first row. It is chosen so that the rows of
  // `tile` are at the beginning of the value's tile memory.
  void* address(std::byte* tile_memory, uint32_t tile) const {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(tile_memory) + offset -
                                   tile * tile_bytes);
  }
};
// The operands of the instruction that are among `values`, inputs first.
std::vector<TileOperand> tile_operands(const Partition& partition,
                                       const PlanInstruction& instruction,
                                       const TileValues& values);

}  // namespace leat
