#include "transport/rpc/peer_user.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace leat {
namespace {

// The form of an address in /proc/net/tcp: "0100007F:445C", the address's words as they lie in
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

}  // namespace

// A line of the table: number, local address, remote address, state, queues, timer, retransmits,
// user, ...
std::optional<uid_t> user_of_peer(const SocketAddress& peer, const SocketAddress& own) {
  std::ifstream table(peer.storage.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6");
  // In the peer's line the local address is the peer's own, and the remote one is this end's.
  const std::string from = listed(peer), to = listed(own);
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits;
    uid_t user = 0;
    if (fields >> number >> local >> remote && local == from && remote == to &&
        fields >> state >> queues >> timer >> retransmits >> user)
      return user;
  }
  return std::nullopt;
}

}  // namespace leat
