// Finds the values of a plan that may be computed in the memory of their receiver, where a channel
// has a place for them. The functions are pure.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/plan/plan.h"

namespace leat {

// True if the value that instruction `send` sends may be computed in a place: it is a whole value
// of the arena or in pages, it is not fed, and no later instruction writes to its bytes. REQUIRES:
// the plan is verified; `send` is a send.
bool may_be_placed(const Partition& partition, uint32_t send);

// A value that goes to several partitions.
struct ValueForMany {
  uint64_t bytes = 0;
  std::vector<uint32_t> edges;  // to those partitions, ascending
};
// Lists the values that partition `from` may compute in one place for two or more of the partitions
// that `to` marks, in the order in which they are sent. Small values, which travel in bundles, are
// not among them. REQUIRES: the plan is verified, and `from` is not elsewhere.
std::vector<ValueForMany> values_for_many(const Plan& plan, uint32_t from,
                                          const std::vector<bool>& to);

}  // namespace leat
