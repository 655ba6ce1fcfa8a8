// The service behind the interface Session of daemon/wire/cluster.capnp. Includes Cap'n Proto: for
// .cc files.
#pragma once

#include <memory>
#include <string>

#include "daemon/master/session_hosts.h"
#include "daemon/wire/cluster.capnp.h"
#include "devices/base/status.h"
#include "transport/rpc/limits.h"
#include "transport/rpc/loop.h"

namespace leat {

// The host as one client holds it: when the client drops the capability, its steps are cancelled.
// `client`: its name, for a
// lasting session (SessionLease::take_over()). The other arguments outlive it. Threads: the loop's.
wire::Session::Client make_session_server(RpcLoop& loop, SessionHosts& hosts,
                                          std::shared_ptr<SessionHost> host, std::string client,
                                          std::shared_ptr<ByteBudget> uploads);

}  // namespace leat
