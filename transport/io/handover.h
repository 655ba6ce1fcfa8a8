// Passes an authenticated connection to another process of the host, over a unix socket between
// the two: from the worker, which accepts for everybody, to the runner whose run it is.
#pragma once

#include "transport/io/handshake.h"

namespace leat {

// Gives the connection away: this process does not keep the socket.
Status hand_over(int unix_socket, Connection connection, Deadline deadline);
// unavailable if the other process closed, invalid_argument if what came is no connection.
Result<Connection> take_over(int unix_socket, Deadline deadline);

}  // namespace leat
