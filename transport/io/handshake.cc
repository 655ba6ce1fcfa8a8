#include "transport/io/handshake.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

// All peers of a run may dial at once.
constexpr int kBacklog = 1024;
constexpr std::string_view kUnix = "unix:";

// An address of any family, as the system takes it. (transport/rpc/socket.h has another one, for
// the control plane.)
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Status bad_address(const std::string& address) {
  return invalid_argument(cat("address '", address,
                              "': expected an IP address and a port as in 127.0.0.1:4711, or "
                              "unix:/path"));
}

// "unix:/path". The path must leave room for its final zero.
Result<SocketAddress> parse_unix(const std::string& address) {
  const std::string path = address.substr(kUnix.size());
  sockaddr_un un{};
  if (path.empty() || path.size() >= sizeof un.sun_path) return bad_address(address);
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, path.data(), path.size());
  SocketAddress parsed;
  std::memcpy(&parsed.storage, &un, sizeof un);
  parsed.size = sizeof un;
  return parsed;
}

// Only literal addresses, so that no look-up of a name blocks here.
Result<SocketAddress> parse(const std::string& address) {
  if (address.starts_with(kUnix)) return parse_unix(address);
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return bad_address(address);
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0)
    return bad_address(address);
  SocketAddress parsed;
  std::memcpy(&parsed.storage, found->ai_addr, found->ai_addrlen);
  parsed.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return parsed;
}

Result<Descriptor> open_socket(int family, const std::string& address) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error(cat("socket for ", address), errno);
  return socket;
}

// The address with the port that the system chose.
std::string address_of(int socket, const std::string& asked) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (asked.starts_with(kUnix) ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return asked;
  // The port is at the same place in the addresses of both families.
  uint16_t port = 0;
  std::memcpy(&port, reinterpret_cast<char*>(&bound) + 2, sizeof port);
  return asked.substr(0, asked.rfind(':') + 1) + std::to_string(ntohs(port));
}

// True if the other end is this machine. REQUIRES: an address of the internet.
bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(in.sin_addr.s_addr) >> 24) == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
}

}  // namespace

// A congestion control of our own choice is only tried; one that the configuration asks for must be
// there.
Status apply(const SocketOptions& options, int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0)
    return system_error("the peer of a socket", errno);
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return {};
  const int one = 1, timeout = static_cast<int>(options.user_timeout.count());
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
  std::string congestion = options.congestion;
  if (congestion.empty() && is_loopback(peer)) congestion = "reno";
  if (!congestion.empty() &&
      ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                   static_cast<socklen_t>(congestion.size())) != 0 &&
      !options.congestion.empty()) {
    return invalid_argument(
        cat("congestion control '", congestion, "': expected one that this system has"));
  }
  return {};
}

bool is_local(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  return peer.ss_family == AF_UNIX || is_loopback(peer);
}

Result<Descriptor> connect_socket(const std::string& address, Deadline deadline,
                                  const SocketOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const SocketAddress to, parse(address));
  LEAT_ASSIGN_OR_RETURN(Descriptor socket, open_socket(to.storage.ss_family, address));
  const std::string subject = "connecting to " + address;
  int connected = ::connect(socket.get(), to.get(), to.size);
  // The queue of a unix socket is full: the process that listens is behind with accepting.
  while (connected != 0 && errno == EAGAIN && std::chrono::steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 5);
    connected = ::connect(socket.get(), to.get(), to.size);
  }
  if (connected != 0 && errno == EAGAIN)
    return deadline_exceeded(subject + ": expected it to accept, its queue stays full");
  if (connected != 0) {
    // The connection is made in the background. Its result is in SO_ERROR when the socket is
    // writable.
    if (errno != EINPROGRESS && errno != EINTR) return system_error(subject, errno);
    LEAT_RETURN_IF_ERROR(wait_ready(socket.get(), POLLOUT, deadline, subject));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return system_error(subject, error);
  }
  LEAT_RETURN_IF_ERROR(apply(options, socket.get()));
  return socket;
}

Result<ListeningSocket> listen_socket(const std::string& address) {
  LEAT_ASSIGN_OR_RETURN(const SocketAddress at, parse(address));
  LEAT_ASSIGN_OR_RETURN(Descriptor socket, open_socket(at.storage.ss_family, address));
  const int one = 1;
  if (at.storage.ss_family != AF_UNIX)
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(socket.get(), at.get(), at.size) != 0 || ::listen(socket.get(), kBacklog) != 0)
    return system_error("listening on " + address, errno);
  std::string got = address_of(socket.get(), address);
  return ListeningSocket{std::move(socket), std::move(got)};
}

Result<Connection> greet(Descriptor socket, LinkHello hello, const RunKey& key, Deadline deadline,
                         std::string_view peer) {
  const std::string subject = cat("handshake with ", peer);
  hello.nonce = link_nonce();
  const HelloBytes hello_bytes = encode(hello);
  AnswerBytes answer_bytes;
  // A listener that is busy answers and closes without reading the hello. Its answer says more than
  // the failed send does.
  const Status sent = send_all(socket.get(), hello_bytes, deadline, subject);
  const Status answered = receive_all(socket.get(), answer_bytes, deadline, subject);
  if (!answered.ok()) return sent.ok() ? answered : sent;
  LEAT_ASSIGN_OR_RETURN(const LinkAnswer answer, decode_answer(answer_bytes));
  const auto refused = [&](LinkRefusal why) {
    // The listener has room again when other handshakes have ended.
    if (why == LinkRefusal::busy) return unavailable(cat(subject, ": it refused: busy"));
    return failed_precondition(
        cat(subject, ": it refused: ", refusal_name(why), " is not what it expects"));
  };
  if (answer.refusal != LinkRefusal::none) return refused(answer.refusal);
  // The listener proves itself first, so that this end shows nothing to a stranger.
  if (!same(answer.proof, prove(key, Prover::listener, hello_bytes, answer_bytes)))
    return failed_precondition(cat(subject, ": key: it does not know the run's"));
  // The proof covers it: a listener that knows the key has no TLS.
  if ((hello.features & ~answer.features) != 0)
    return failed_precondition(cat(subject, ": TLS: it does not have it"));
  if (answer.version < hello.oldest || answer.version > hello.newest)
    return failed_precondition(cat(subject, ": version: it chose ", answer.version));
  const Sha256Digest proof = prove(key, Prover::dialer, hello_bytes, answer_bytes);
  LEAT_RETURN_IF_ERROR(send_all(socket.get(), std::as_bytes(std::span(proof)), deadline, subject));
  VerdictBytes verdict_bytes;
  LEAT_RETURN_IF_ERROR(receive_all(socket.get(), verdict_bytes, deadline, subject));
  LEAT_ASSIGN_OR_RETURN(const LinkRefusal verdict, decode_verdict(verdict_bytes));
  if (verdict != LinkRefusal::none) return refused(verdict);
  return Connection{std::move(socket), hello};
}

Result<Connection> dial(const std::string& address, LinkHello hello, const RunKey& key,
                        Deadline deadline, const SocketOptions& options) {
  LEAT_ASSIGN_OR_RETURN(Descriptor socket, connect_socket(address, deadline, options));
  return greet(std::move(socket), std::move(hello), key, deadline, address);
}

}  // namespace leat
