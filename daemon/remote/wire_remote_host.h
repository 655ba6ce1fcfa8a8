// Where runners and their reports come in from the wire. Includes Cap'n Proto: for .cc files.
#pragma once

#include <memory>

#include "daemon/remote/remote_host.h"
#include "daemon/wire/cluster.capnp.h"
#include "transport/rpc/loop.h"

namespace leat {

// Threads: the loop's, both.

// The capability is that of Registry.registerRunner. `loop` outlives the runner.
std::shared_ptr<RemoteHost> make_remote_host(RpcLoop& loop, RunnerFacts facts,
                                             wire::Runner::Client runner);

// Tells the runner's runs what it reported. invalid_argument for what no runner of ours would say;
// that run then fails, too.
Status take_reports(RemoteHost& runner, capnp::List<wire::RunReport>::Reader reports);

}  // namespace leat
