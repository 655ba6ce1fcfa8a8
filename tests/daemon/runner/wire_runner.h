// Gives tests the capability of a runner, for calls that no master would make. Includes Cap'n
// Proto: for .cc files.
#pragma once

#include "daemon/wire/cluster.capnp.h"
#include "tests/daemon/runner/runner_testing.h"

namespace leat::testing {

struct WireRunner {
  // Threads: the cluster's loop's.
  static wire::Runner::Client of(RunnerTestCluster& cluster, uint32_t task);
};

}  // namespace leat::testing
