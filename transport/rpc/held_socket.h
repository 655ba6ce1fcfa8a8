// Finds a TCP socket of this machine by its connection, and tells whether a process holds it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "devices/base/status.h"
#include "transport/rpc/socket.h"

namespace leat {

// A connected socket that a process holds. A value.
struct HeldSocket {
  uid_t user = 0;
  uint64_t inode = 0;
  uint64_t cookie = 0;  // of this socket alone, whatever addresses others have; 0: not known
  friend bool operator==(const HeldSocket&, const HeldSocket&) = default;
};

// Both find the socket that is bound to `local` and connected to `remote`. Nothing if there is
// none, or if its process has closed it: the kernel keeps such a socket for a while, as one of user
// 0 and without a number. An IPv4 address and the IPv6 address that maps it are one.

// Asks the kernel for this one socket, whatever number of others there is. unimplemented if the
// kernel cannot be asked (NETLINK_SOCK_DIAG). REQUIRES: loopback.
Result<std::optional<HeldSocket>> ask_held_socket(const SocketAddress& local,
                                                  const SocketAddress& remote);
// Reads the lists of all sockets in /proc/self/net. Takes time for each socket of the machine.
std::optional<HeldSocket> list_held_socket(const SocketAddress& local, const SocketAddress& remote);

}  // namespace leat
