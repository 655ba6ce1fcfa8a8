#include "transport/rpc/peer_user.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "transport/rpc/grant.h"

namespace leat {
namespace {

// The form of an address in /proc/self/net/tcp: "0100007F:445C", the address's words as they lie in
// memory, and the port.
std::string listed(const SocketAddress& address) {
  uint32_t words[4] = {};
  int count = 1;
  uint16_t port = 0;
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &address.storage, sizeof in);
    std::memcpy(words, &in.sin_addr, sizeof in.sin_addr);
    port = ntohs(in.sin_port);
  } else {
    sockaddr_in6 in;
    std::memcpy(&in, &address.storage, sizeof in);
    std::memcpy(words, &in.sin6_addr, sizeof in.sin6_addr);
    port = ntohs(in.sin6_port);
    count = 4;
  }
  std::string text;
  char part[16];
  for (int i = 0; i < count; ++i) {
    std::snprintf(part, sizeof part, "%08X", words[i]);
    text += part;
  }
  std::snprintf(part, sizeof part, ":%04X", port);
  return text + part;
}

// The kernel shows users that this process's user namespace lacks as one number. A process in the
// first namespace sees each user as it is.
bool stands_for_others(uid_t user) {
  uid_t overflow = 65534;
  std::ifstream("/proc/sys/kernel/overflowuid") >> overflow;
  if (user != overflow) return false;
  uint64_t inside = 1, outside = 1, count = 0;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
  return inside != 0 || outside != 0 || count != 0xffffffff;
}

// A socket that a process holds, by its number.
struct HeldSocket {
  uid_t user = 0;
  uint64_t inode = 0;
};

// Finds the peer's socket in the table. Nothing for one that its process has closed: the kernel
// lists it for a while, as one of user 0 and without a number. A line of the table: number, local
// address, remote address, state, queues, timer, retransmits, user, timeout, inode, ...
std::optional<HeldSocket> held_socket(const SocketAddress& peer, const SocketAddress& own) {
  constexpr std::string_view kEstablished = "01";
  std::ifstream table(peer.storage.ss_family == AF_INET ? "/proc/self/net/tcp"
                                                        : "/proc/self/net/tcp6");
  // In the peer's line the local address is the peer's own, and the remote one is this end's.
  const std::string from = listed(peer), to = listed(own);
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, timeout;
    HeldSocket socket;
    if (!(fields >> number >> local >> remote) || local != from || remote != to) continue;
    fields >> state >> queues >> timer >> retransmits >> socket.user >> timeout >> socket.inode;
    if (fields.fail() || state != kEstablished || socket.inode == 0) return std::nullopt;
    return socket;
  }
  return std::nullopt;
}

}  // namespace

// The kernel reads the parts of a line one after the other, while the process may close the socket.
// One that is held at the second look was so all the time before, and the first look was right.
std::optional<uid_t> user_of_peer(const SocketAddress& peer, const SocketAddress& own) {
  const auto first = held_socket(peer, own);
  const auto second = first ? held_socket(peer, own) : std::nullopt;
  if (!second || second->inode != first->inode) return std::nullopt;
  return first->user;
}

std::optional<LocalPeer> local_peer(int socket) {
  LocalPeer found;
  const SocketAddress own = local_address(socket);
  if (own.is_unix()) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
    found = {peer.uid, peer.pid};
  } else {
    const SocketAddress peer = remote_address(socket);
    const auto user = peer.is_loopback() ? user_of_peer(peer, own) : std::nullopt;
    if (!user) return std::nullopt;
    found.user = *user;
  }
  if (stands_for_others(found.user)) return std::nullopt;
  return found;
}

std::string user_name(uid_t user) {
  std::vector<char> space(16384);
  passwd entry{};
  passwd* known = nullptr;
  // Names that a grant cannot have, such as "DOMAIN\\ann", give way to the number.
  if (::getpwuid_r(user, &entry, space.data(), space.size(), &known) == 0 && known != nullptr &&
      check_name(known->pw_name).ok())
    return known->pw_name;
  return cat("uid-", user);
}

}  // namespace leat
