// The few calls on sockets that the control plane makes itself.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// The address of a socket. A value.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  // True for 127.0.0.0/8 in both families, for ::1, and for a Unix socket.
  bool is_loopback() const;
  bool is_unix() const { return storage.ss_family == AF_UNIX; }
  // "127.0.0.1:4711", "[::1]:4711", "a Unix socket".
  std::string to_string() const;
  // The part of an address that one user of the network cannot have many of: an IPv4 address, or
  // the /64 of an IPv6 address.
  std::string owner() const;
};

// Reads "127.0.0.1:80", "[::]:80" or "localhost:80". Everything else is invalid_argument.
Result<SocketAddress> parse_socket_address(std::string_view text);

// A listening socket's descriptor, non-blocking and closed on exec, which the caller owns.
// unavailable if the address cannot be had.
Result<int> listen_on(const SocketAddress& address);
// The address of a socket's own end, and of the other one.
SocketAddress local_address(int socket);
SocketAddress remote_address(int socket);

// Sends small messages without delay, and notices within about 3 s that a peer is gone without a
// word, whether the connection is idle or not.
void set_control_options(int socket);

}  // namespace leat
