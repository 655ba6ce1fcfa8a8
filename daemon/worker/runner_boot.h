// The first bytes that a runner reads: RunnerBoot of daemon/wire/cluster.capnp.
#pragma once

#include <vector>

#include "daemon/worker/runners.h"

namespace leat {

// With its length before it.
std::vector<std::byte> runner_boot(const RunnerOrder& order, const RunnerSurroundings& surroundings,
                                   const std::string& directory, uint64_t incarnation);

}  // namespace leat
