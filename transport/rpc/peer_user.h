// Finds the user of this machine at the other end of a connection.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "devices/base/status.h"
#include "transport/rpc/grant.h"
#include "transport/rpc/rpc_role.h"
#include "transport/rpc/socket.h"

namespace leat {

// The user whose socket is bound to `peer` and connected to `own`, as the kernel tells it. Nothing
// if the kernel knows none: the connection is gone, or comes from another network namespace. On a
// kernel without NETLINK_SOCK_DIAG this takes time for each socket of the machine.
std::optional<uid_t> user_of_peer(const SocketAddress& peer, const SocketAddress& own);

// The process at the other end of a connected socket. A value.
struct LocalPeer {
  uid_t user = 0;
  pid_t process = 0;  // 0: not known, as over TCP
};
// Of a Unix socket, or of a TCP socket over loopback. Nothing if the kernel names no user, or only
// the number that stands for all users of other user namespaces.
std::optional<LocalPeer> local_peer(int socket);

// Decides the rights that a process of this machine has in a role by its user alone, or the reason
// why it has none: failed_precondition, or another code if the user cannot be judged now. Called on
// the loop of a server, which must not block: any thread may call `done`, once, while the loop
// still exists.
using JudgeUser =
    std::function<void(const LocalPeer&, RpcRole, std::function<void(Result<Grant>)>)>;

}  // namespace leat
