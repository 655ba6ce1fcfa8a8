// Where values that cross partitions may be computed: in their receiver's memory, where a channel
// has a place for them.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/plan/plan.h"

namespace leat {

// A send of just the bytes of a value that a kernel computes in the arena or in pages, and that
// nobody writes to once it is.
// REQUIRES: the plan is verified; `send` is a send.
bool may_be_placed(const Partition& partition, uint32_t send);

// A value that goes to several partitions, by the edges to them, ascending.
struct ValueForMany {
  uint64_t bytes = 0;
  std::vector<uint32_t> edges;
};
// Values that `from` may compute where two or more of `to` (by partition) read them, in the order
// in which they are sent; small ones travel in bundles, and are none of them.
// REQUIRES: the plan is verified, and `from` is not elsewhere.
std::vector<ValueForMany> values_for_many(const Plan& plan, uint32_t from,
                                          const std::vector<bool>& to);

}  // namespace leat
