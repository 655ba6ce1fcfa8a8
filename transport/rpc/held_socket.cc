#include "transport/rpc/held_socket.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint8_t kEstablished = 1;      // TCP_ESTABLISHED
constexpr uint32_t kLoopbackDevice = 1;  // in each network namespace

// One end of a connection as the kernel stores it: IPv4 addresses have one word.
struct End {
  sa_family_t family = AF_UNSPEC;
  uint32_t words[4] = {};  // as they lie in memory
  in_port_t port = 0;      // in the order of the network
  bool same_as(const uint32_t* other) const {
    return std::memcmp(words, other, (family == AF_INET ? 1 : 4) * sizeof words[0]) == 0;
  }
};

// IPv4 for an address that maps one.
End end_of(const SocketAddress& address) {
  End end;
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &address.storage, sizeof in);
    end.family = AF_INET;
    std::memcpy(end.words, &in.sin_addr, sizeof in.sin_addr);
    end.port = in.sin_port;
    return end;
  }
  sockaddr_in6 in;
  std::memcpy(&in, &address.storage, sizeof in);
  end.port = in.sin6_port;
  std::memcpy(end.words, &in.sin6_addr, sizeof in.sin6_addr);
  end.family = AF_INET6;
  if (!IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) return end;
  end.family = AF_INET;
  end.words[0] = end.words[3];
  return end;
}

// The same end in the list of IPv6 sockets, of which some are connected over IPv4.
End mapped(const End& end) {
  End out = end;
  out.family = AF_INET6;
  const uint32_t prefix[3] = {0, 0, htonl(0xffff)};
  std::memcpy(out.words, prefix, sizeof prefix);
  out.words[3] = end.words[0];
  return out;
}

// Asks the kernel ---------------------------------------------------------------------------------

class NetlinkSocket {
 public:
  NetlinkSocket()
      : descriptor_(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}
  ~NetlinkSocket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  NetlinkSocket(const NetlinkSocket&) = delete;
  NetlinkSocket& operator=(const NetlinkSocket&) = delete;
  bool is_open() const { return descriptor_ >= 0; }

  // Sends the request and reads the first message of the answer into `answer`, whose size it
  // returns; 0 if there is none. The kernel answers before the send returns.
  size_t ask(inet_diag_req_v2 request, uint16_t flags, std::vector<std::byte>& answer) const {
    struct {
      nlmsghdr header;
      inet_diag_req_v2 request;
    } message{};
    message.header.nlmsg_len = sizeof message;
    message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    message.header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    message.request = request;
    answer.assign(8192, std::byte{0});
    if (::send(descriptor_, &message, sizeof message, MSG_NOSIGNAL) != sizeof message) return 0;
    const ssize_t size = ::recv(descriptor_, answer.data(), answer.size(), MSG_DONTWAIT);
    return size > 0 ? static_cast<size_t>(size) : 0;
  }

 private:
  const int descriptor_;
};

// Copies the body of the message if it is of that type and large enough.
template <typename Body>
std::optional<Body> body_of(const std::vector<std::byte>& message, size_t size, uint16_t type) {
  nlmsghdr header{};
  if (size < sizeof header) return std::nullopt;
  std::memcpy(&header, message.data(), sizeof header);
  Body body{};
  if (header.nlmsg_type != type || size < NLMSG_HDRLEN + sizeof body) return std::nullopt;
  std::memcpy(&body, message.data() + NLMSG_HDRLEN, sizeof body);
  return body;
}

inet_diag_req_v2 request_for(sa_family_t family) {
  inet_diag_req_v2 request{};
  request.sdiag_family = static_cast<uint8_t>(family);
  request.sdiag_protocol = IPPROTO_TCP;
  return request;
}

// Whether the kernel has what it takes. Its answer to a question about one socket does not tell a
// module that is missing from a socket that is; a list of the sockets in no state does.
bool can_answer(const NetlinkSocket& netlink, sa_family_t family) {
  std::vector<std::byte> answer;
  const size_t size = netlink.ask(request_for(family), NLM_F_DUMP, answer);
  const auto error = body_of<int>(answer, size, NLMSG_DONE);
  return error && *error == 0;
}

}  // namespace

Result<std::optional<HeldSocket>> ask_held_socket(const SocketAddress& local,
                                                  const SocketAddress& remote) {
  const End from = end_of(local), to = end_of(remote);
  if (from.family != to.family) return std::optional<HeldSocket>();
  const NetlinkSocket netlink;
  if (!netlink.is_open())
    return unimplemented(cat("NETLINK_SOCK_DIAG: expected a socket, received errno ", errno));
  inet_diag_req_v2 request = request_for(from.family);
  request.idiag_states = ~0u;
  std::memcpy(request.id.idiag_src, from.words, sizeof from.words);
  std::memcpy(request.id.idiag_dst, to.words, sizeof to.words);
  request.id.idiag_sport = from.port;
  request.id.idiag_dport = to.port;
  request.id.idiag_if = kLoopbackDevice;  // also finds sockets that are bound to no device
  request.id.idiag_cookie[0] = request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  std::vector<std::byte> answer;
  const size_t size = netlink.ask(request, 0, answer);
  const auto found = body_of<inet_diag_msg>(answer, size, SOCK_DIAG_BY_FAMILY);
  if (!found) {
    const auto error = body_of<nlmsgerr>(answer, size, NLMSG_ERROR);
    const NetlinkSocket another;  // the rest of an answer may still be in the first one
    if (error && error->error == -ENOENT && another.is_open() && can_answer(another, from.family))
      return std::optional<HeldSocket>();
    return unimplemented("NETLINK_SOCK_DIAG: expected an answer about a socket, received none");
  }
  // The kernel falls back to a socket that listens at the address. An IPv6 socket over IPv4 is
  // found with mapped addresses.
  const auto is = [&](const End& end, const uint32_t* words) {
    return found->idiag_family == AF_INET6 && end.family == AF_INET ? mapped(end).same_as(words)
                                                                    : end.same_as(words);
  };
  const bool exact = is(from, found->id.idiag_src) && is(to, found->id.idiag_dst) &&
                     found->id.idiag_sport == from.port && found->id.idiag_dport == to.port;
  if (!exact || found->idiag_state != kEstablished || found->idiag_inode == 0)
    return std::optional<HeldSocket>();
  const uint64_t cookie =
      uint64_t{found->id.idiag_cookie[1]} << 32 | uint64_t{found->id.idiag_cookie[0]};
  return std::optional(HeldSocket{found->idiag_uid, found->idiag_inode, cookie});
}

// Reads the lists ---------------------------------------------------------------------------------

namespace {

// The form of an end in /proc/self/net/tcp: "0100007F:445C", the address's words as they lie in
// memory, and the port.
std::string listed(const End& end) {
  std::string text;
  char part[16];
  for (int i = 0; i < (end.family == AF_INET ? 1 : 4); ++i) {
    std::snprintf(part, sizeof part, "%08X", end.words[i]);
    text += part;
  }
  std::snprintf(part, sizeof part, ":%04X", ntohs(end.port));
  return text + part;
}

// A line of a list: number, local address, remote address, state, queues, timer, retransmits, user,
// timeout, inode, ...
std::optional<HeldSocket> read_list(const char* path, const End& from, const End& to) {
  std::ifstream list(path);
  const std::string first = listed(from), second = listed(to);
  for (std::string line; std::getline(list, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, timeout;
    HeldSocket socket;
    if (!(fields >> number >> local >> remote) || local != first || remote != second) continue;
    fields >> state >> queues >> timer >> retransmits >> socket.user >> timeout >> socket.inode;
    if (fields.fail() || state != "01" || socket.inode == 0) return std::nullopt;
    return socket;
  }
  return std::nullopt;
}

}  // namespace

std::optional<HeldSocket> list_held_socket(const SocketAddress& local,
                                           const SocketAddress& remote) {
  const End from = end_of(local), to = end_of(remote);
  if (from.family != to.family) return std::nullopt;
  if (from.family == AF_INET6) return read_list("/proc/self/net/tcp6", from, to);
  const auto found = read_list("/proc/self/net/tcp", from, to);
  return found ? found : read_list("/proc/self/net/tcp6", mapped(from), mapped(to));
}

}  // namespace leat
