// The places of a wire's values in the memory at its receiving end. Both ends compute them from the
// edges of the plan.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/link.h"

namespace leat::direct {

// The slots of one edge.
struct WireSlot {
  uint32_t index = 0;   // among the edges that carry values
  uint32_t edge = 0;    // of the plan
  uint64_t bytes = 0;   // of a value, above 0
  uint64_t offset = 0;  // of the slot of the even turns, in bytes
  uint64_t stride = 0;  // from there to that of the odd ones
};

// Threads: a value.
class WireSlots {
 public:
  // Tokens have no slots. REQUIRES: the edges ascend.
  explicit WireSlots(const std::vector<LinkEdge>& edges);

  // The memory that they need.
  uint64_t bytes() const { return bytes_; }
  const std::vector<WireSlot>& all() const { return slots_; }
  // Null if the edge carries no value.
  const WireSlot* find(uint32_t edge) const;
  static uint64_t offset(const WireSlot& slot, uint64_t turn) {
    return slot.offset + turn % kSlotDepth * slot.stride;
  }
  // The most values that can be on their way at a time.
  size_t most_values() const { return kSlotDepth * slots_.size(); }

 private:
  std::vector<WireSlot> slots_;
  uint64_t bytes_ = 0;
};

}  // namespace leat::direct
