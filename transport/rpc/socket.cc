#include "transport/rpc/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

// REQUIRES: the family is the one of the name.
const sockaddr_in& v4(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& v6(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

// One message for all that is wrong with an address: it shows the forms that are accepted.
Status bad_address(std::string_view text) {
  return invalid_argument(cat("address '", text,
                              "': expected an IP address or localhost, a colon and a port, as in "
                              "127.0.0.1:4711 or [::1]:4711"));
}

}  // namespace

bool SocketAddress::is_loopback() const {
  if (is_unix()) return true;
  if (storage.ss_family == AF_INET) return ntohl(v4(*this).sin_addr.s_addr) >> 24 == 127;
  if (storage.ss_family != AF_INET6) return false;
  const in6_addr& ip = v6(*this).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == 127);
}

std::string SocketAddress::to_string() const {
  char host[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &v4(*this).sin_addr, host, sizeof(host));
    return cat(host, ":", ntohs(v4(*this).sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &v6(*this).sin6_addr, host, sizeof(host));
    return cat("[", host, "]:", ntohs(v6(*this).sin6_port));
  }
  return is_unix() ? "a Unix socket" : "unknown address";
}

std::string SocketAddress::owner() const {
  if (is_unix()) return "unix";
  if (storage.ss_family == AF_INET) {
    return std::string(reinterpret_cast<const char*>(&v4(*this).sin_addr), 4);
  }
  const auto* bytes = reinterpret_cast<const char*>(&v6(*this).sin6_addr);
  return IN6_IS_ADDR_V4MAPPED(&v6(*this).sin6_addr) ? std::string(bytes + 12, 4)
                                                    : std::string(bytes, 8);
}

Result<SocketAddress> parse_socket_address(std::string_view text) {
  // The last colon separates the port. An IPv6 address has further ones, so it must be in brackets.
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) return bad_address(text);
  std::string host(text.substr(0, colon));
  const std::string port(text.substr(colon + 1));
  uint16_t number = 0;
  const auto end = std::from_chars(port.data(), port.data() + port.size(), number);
  if (end.ec != std::errc() || end.ptr != port.data() + port.size()) return bad_address(text);
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.empty() || host.find(':') != std::string::npos) {
    return bad_address(text);
  }
  addrinfo hints{};
  // No name is looked up: that could block the thread for seconds.
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return bad_address(text);
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

Result<int> listen_on(const SocketAddress& address) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int one = 1;
  // A restarted process gets its port back even if connections of the last one are still timing
  // out.
  if (fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 &&
      ::listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  if (fd >= 0) ::close(fd);
  return unavailable(cat("cannot listen on ", address.to_string(), ": ", std::strerror(error)));
}

SocketAddress local_address(int socket) {
  SocketAddress address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
  return address;
}

SocketAddress remote_address(int socket) {
  SocketAddress address;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size);
  return address;
}

void set_control_options(int socket) {
  const auto set = [socket](int level, int option, int value) {
    // Sockets that are not TCP refuse some of these, without harm.
    (void)::setsockopt(socket, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  // An end that is cut off notices it in 2.4 s if it has sent something, and otherwise after two
  // probes, in 3 s. The kernel of a process that is merely stopped still answers.
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 2'200);
}

}  // namespace leat
