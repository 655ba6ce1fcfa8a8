// The parts of a master that let in, without a key, processes of its own machine.
#pragma once

#include <memory>

#include "daemon/master/master_parts.h"
#include "daemon/master/user_judge.h"
#include "devices/base/status.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/peer_user.h"

namespace leat {

// The identity of the master's servers.
RpcIdentity identity_of(const MasterParts& parts);

// Makes MasterParts::local, MasterParts::users and, on a master without a secret,
// MasterParts::own_secret. invalid_argument for a file of that secret which cannot be used.
// REQUIRES: the state folder is taken.
Status open_local_access(MasterParts& parts);

// RpcServerOptions::judge_user over loopback: by UserJudge if there is no secret, and empty if
// peers prove one, or if everybody is let in.
JudgeUser judge_on_loopback(const MasterParts& parts);

// Starts the server for clients on the Unix socket, where the user of each decides, with and
// without a secret of the cluster. Null if local_socket is off. REQUIRES: all other parts are
// there.
Result<std::unique_ptr<RpcServer>> listen_locally(MasterParts& parts);

}  // namespace leat
