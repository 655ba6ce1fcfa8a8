// The calls between a runner and its master. Includes Cap'n Proto: for .cc files.
#pragma once

#include <chrono>

#include "daemon/runner/job_runner.h"
#include "daemon/wire/cluster.capnp.h"
#include "transport/rpc/loop.h"

namespace leat {

class RpcClient;

// Makes the object that `runner` registers with the master, which calls it. Threads: the loop's.
// `runner` outlives all tasks on the loop. The methods do not block the loop: those that block run
// on strands and answer by a promise.
wire::Runner::Client make_runner_service(RpcLoop& loop, JobRunner& runner);

// Registers the runner with the master of this connection. Threads: any except the loop's. Shows
// the token of the configuration. Blocks for `deadline` at most. The errors are those of the
// master, and unavailable or deadline_exceeded if it does not answer.
Status register_runner(RpcClient& master, RpcLoop& loop, JobRunner& runner,
                       std::chrono::nanoseconds deadline);

// Reports files that do not answer to the master. Threads: any except the loop's. Waits for a
// second at most.
void tell_of_starved(RpcClient& master, const StarvedInput& starved);

// Likewise, the failure of the runner's GPU, for which its process ends.
void tell_of_failed_device(RpcClient& master, uint64_t assembly, const std::string& how);

}  // namespace leat
