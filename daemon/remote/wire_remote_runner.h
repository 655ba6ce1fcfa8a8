// Where runners and their reports come in from the wire. Includes Cap'n Proto: for .cc files.
#pragma once

#include <memory>

#include "daemon/remote/remote_runner.h"
#include "transport/cluster.capnp.h"
#include "transport/rpc/loop.h"

namespace leat {

// Threads: the loop's, both.

// The capability is that of Registry.registerRunner. `loop` outlives the runner.
std::shared_ptr<RemoteRunner> make_remote_runner(RpcLoop& loop, RunnerFacts facts,
                                                 wire::Runner::Client runner);

// Tells the runner's runs what it reported. invalid_argument for what no runner of ours would say;
// that run then fails, too.
Status take_reports(RemoteRunner& runner, capnp::List<wire::RunReport>::Reader reports);

}  // namespace leat
