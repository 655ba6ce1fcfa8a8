// Functions through which runners and their reports arrive from the network. Includes Cap'n Proto:
// for .cc files.
#pragma once

#include <memory>

#include "daemon/remote/remote_host.h"
#include "daemon/wire/cluster.capnp.h"
#include "transport/rpc/loop.h"

namespace leat {

// Threads: the loop's, for both functions.

// Makes the handle of a registered runner. `runner` is the capability from Registry.registerRunner.
// `loop` must outlive the handle.
std::shared_ptr<RemoteHost> make_remote_host(RpcLoop& loop, RunnerFacts facts,
                                             wire::Runner::Client runner);

// Passes a runner's reports to its runs. invalid_argument for a report that no correct runner
// sends; the run of that report then fails, too.
Status take_reports(RemoteHost& runner, capnp::List<wire::RunReport>::Reader reports);

}  // namespace leat
