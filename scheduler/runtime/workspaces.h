// The places of kernels' workspaces in one block of memory, for all kernels of a partition. The
// function is pure, and any thread may call it.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/plan/plan.h"

namespace leat {

// A workspace of at least so many bytes may share memory with others.
inline constexpr uint64_t kLargeWorkspace = 1 << 20;

struct WorkspacePlaces {
  std::vector<uint64_t> offsets;  // by instruction, in bytes
  uint64_t bytes = 0;             // of the block
};

// `sizes`: the bytes of each instruction's workspace, multiples of the device's alignment; 0 for
// none. The kernels of a chain work at the same time, so their workspaces never overlap. Small
// workspaces have a place of their own. Large ones share memory: those of a chain, or of a kernel
// that is in none, follow those of the one before, and from the end of the memory they begin at its
// start again. Kernels that share bytes run one after the other, as all that write to the same
// bytes (order_entries.cc); they are far apart in the plan, so that none waits for another.
//
// With `together`, all large ones begin at one place: for devices whose kernels run one after the
// other anyhow, and whose libraries ask for much memory.
WorkspacePlaces place_workspaces(const Partition& partition, const std::vector<uint64_t>& sizes,
                                 bool together);

}  // namespace leat
