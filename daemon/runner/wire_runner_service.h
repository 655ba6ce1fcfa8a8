// A runner's face on the control plane. Includes Cap'n Proto: for .cc files.
#pragma once

#include <chrono>

#include "daemon/runner/job_runner.h"
#include "daemon/wire/cluster.capnp.h"
#include "transport/rpc/loop.h"

namespace leat {

class RpcClient;

// What `runner` registers with. Threads: the loop's. `runner` outlives everything on the loop.
wire::Runner::Client make_runner_service(RpcLoop& loop, JobRunner& runner);

// Registers it with the master of this connection. Threads: any but the loop's.
Status register_runner(RpcClient& master, RpcLoop& loop, JobRunner& runner,
                       std::chrono::nanoseconds deadline);

// Says so to the master. Threads: any but the loop's; waits for a second at most.
void tell_of_starved(RpcClient& master, const StarvedInput& starved);

}  // namespace leat
