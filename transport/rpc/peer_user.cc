#include "transport/rpc/peer_user.h"

#include <sys/socket.h>

#include <fstream>

#include "transport/rpc/held_socket.h"

namespace leat {
namespace {

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

// The lists are for kernels that cannot be asked.
std::optional<HeldSocket> held_socket(const SocketAddress& local, const SocketAddress& remote) {
  const auto asked = ask_held_socket(local, remote);
  return asked.ok() ? *asked : list_held_socket(local, remote);
}

}  // namespace

// The kernel reads the parts of an answer one after the other, while the process may close the
// socket. One that is held at the second look was so all the time before, and the first look was
// right. At the peer the local address is the peer's own, and the remote one is this end's.
std::optional<uid_t> user_of_peer(const SocketAddress& peer, const SocketAddress& own) {
  const auto first = held_socket(peer, own);
  const auto second = first ? held_socket(peer, own) : std::nullopt;
  if (!second || *second != *first) return std::nullopt;
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

}  // namespace leat
