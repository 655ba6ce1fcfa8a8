// The few things that the control plane asks of sockets itself.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// A socket's address. A value.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  bool is_loopback() const;
  std::string to_string() const;  // "127.0.0.1:4711", "[::1]:4711"
  // What one user of the network cannot have many of: an IPv4 address, an IPv6 /64.
  std::string owner() const;
};

// "127.0.0.1:80", "[::]:80", "localhost:80". invalid_argument if it is none of these.
Result<SocketAddress> parse_socket_address(std::string_view text);

// A descriptor of a socket that listens, non-blocking and closed on exec.
Result<int> listen_on(const SocketAddress& address);
// Of a socket's own end.
SocketAddress local_address(int socket);

// No delay of small messages; and a peer that is gone without a word is noticed within about 30 s,
// idle or not.
void set_control_options(int socket);

}  // namespace leat
