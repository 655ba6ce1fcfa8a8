// Passes an authenticated connection to another process of the machine over a unix socket between
// the two. The worker accepts connections for all runners of its machine and hands each one to the
// runner whose run it is for.
//
// The message is the dialer's hello (transport/io/identity.h), with the socket's descriptor.
#pragma once

#include "transport/io/handshake.h"

namespace leat {

// Gives the connection away: this process keeps no descriptor of the socket.
Status hand_over(int unix_socket, Connection connection, Deadline deadline);
// The other end of hand_over(). unavailable if the other process closed, invalid_argument if the
// message is not a connection.
Result<Connection> take_over(int unix_socket, Deadline deadline);

}  // namespace leat
