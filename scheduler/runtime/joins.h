// Which instructions of a partition run as one. The function is pure, and any thread may call it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/graph/kernel.h"
#include "scheduler/plan/plan.h"

namespace leat {

// Groups of two or more instructions, ascending, whose kernels can be joined
// (ops/graph/joinable_kernel.h). `kernels` are those of the instructions; null for transfers.
//
// The members of a group come from one stretch of neighbours, all of which can be joined with some
// others, and none of which touches a variable that another one of them writes. So the instructions
// of a stretch may run in any order, and a group runs in the place of its first member.
std::vector<std::vector<uint32_t>> find_joins(const Partition& partition,
                                              const std::vector<std::unique_ptr<Kernel>>& kernels);

}  // namespace leat
