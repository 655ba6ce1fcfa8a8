// Finds the user of this machine at the other end of a connection over loopback.
#pragma once

#include <sys/types.h>

#include <optional>

#include "transport/rpc/socket.h"

namespace leat {

// The user whose socket is bound to `peer` and connected to `own`, as the kernel lists it in
// /proc/net. Nothing if the kernel lists none: the connection is gone, or comes from another
// network namespace.
std::optional<uid_t> user_of_peer(const SocketAddress& peer, const SocketAddress& own);

}  // namespace leat
