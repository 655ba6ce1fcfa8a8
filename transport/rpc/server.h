// The listening end of the control plane. Includes Cap'n Proto: for .cc files.
#pragma once

#include <capnp/capability.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "devices/base/log.h"
#include "devices/base/status.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/limits.h"
#include "transport/rpc/loop.h"
#include "transport/rpc/peer_user.h"

namespace leat {

// The address to listen on, the server's identity, and the most that callers may cost.
struct RpcServerOptions {
  // A literal address, or "localhost". Port 0 takes a free one, which RpcServer::address() tells.
  std::string address = "127.0.0.1:0";
  // If set, the server listens on the Unix socket of this path instead.
  std::string local_socket;
  RpcIdentity identity;
  RpcLimits limits;
  // An address other than loopback is refused if the identity has no secret and no certificate.
  // With this option it is allowed, and logged every minute.
  bool insecure_allow_network_without_authentication = false;

  // For the time before the hello is accepted.
  std::chrono::milliseconds handshake_deadline{5'000};
  // The most handshakes at once. One more takes the place of the oldest.
  size_t half_open = 256;
  // New connections of one address. Loopback is spared unless `limit_loopback`, since all users of
  // a machine share it.
  double connections_per_second = 10;
  double connection_burst = 50;
  bool limit_loopback = false;
  // Decides the rights of a process of this machine that proves no key. A peer whose user the
  // kernel does not tell is refused. Empty: a peer without a key is a member.
  JudgeUser judge_user;
  // A peer that is not judged within this time is told that the server is busy.
  std::chrono::milliseconds judge_deadline{3'000};

  // Whether the token of a grant is not good any more. Called on the loop for each peer that has
  // proved the key of a token, and every half second while it is connected: a token that was
  // revoked, or has expired, ends its connections. Empty: none was.
  std::function<bool(const Grant&)> is_revoked;

  // Accepted connections at once. Clients have a smaller limit, so that people cannot keep workers
  // out.
  size_t connections = 4'096;
  size_t clients = 2'048;
  // The ByteBudget of all connections.
  size_t held_bytes = 160u << 20;

  // Called on the loop for each connection that is let go before its hello was accepted.
  std::function<void(const std::string& address, const Status& why)> on_refused;
  Logger log;
};

// Counts of connections since the server began.
struct RpcServerCounts {
  // Hello accepted.
  uint64_t accepted = 0;
  // Hello refused, or not a hello.
  uint64_t refused = 0;
  // No whole hello in time, or evicted.
  uint64_t half_open_ended = 0;
  // Too many new connections of one address.
  uint64_t over_rate = 0;
  // Turned away because the process had no descriptor left.
  uint64_t no_descriptor = 0;
  // Accepted, and ended by this end because of what the peer did.
  uint64_t dropped = 0;
  // Accepted and not ended.
  uint64_t live = 0;
};

// Accepts connections, lets no peer near Cap'n Proto before its hello is accepted, and then serves
// each peer, over a GuardedNetwork, the interface for its role.
//
// The server accepts by itself, because KJ's own loop ends the process when descriptors run out.
// This one keeps a descriptor in reserve, turns callers away with it, and waits longer each time.
//
//   auto server = RpcServer::listen(loop, options, [&](const RpcPeer& peer) {
//     return peer.role == RpcRole::worker ? kj::Maybe<capnp::Capability::Client>(worker_facing)
//                                         : nullptr;
//   });
//
// Threads: any but the loop's.
class RpcServer {
 public:
  // Returns the capability that a peer starts from, or nothing, and then its role is refused.
  // Called once for each connection.
  // Threads: called on the loop's.
  using Bootstrap = std::function<kj::Maybe<capnp::Capability::Client>(const RpcPeer&)>;

  // Starts to listen. invalid_argument for an address or identity that makes no sense,
  // failed_precondition for one that would be insecure, unavailable for an address that cannot be
  // had.
  static Result<std::unique_ptr<RpcServer>> listen(RpcLoop& loop, RpcServerOptions options,
                                                   Bootstrap bootstrap);
  // Closes every connection and destroys `bootstrap`. Capabilities that it returned are gone, too,
  // unless they are held elsewhere. REQUIRES: the loop still exists; it may have stopped.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // "127.0.0.1:4711", with the port that was bound.
  const std::string& address() const { return address_; }
  // The counts so far.
  RpcServerCounts counts() const;

  // Ends the connection with the number RpcPeer::connection; nothing if it has ended. Does not
  // wait.
  void drop(uint64_t connection);

 private:
  class Acceptor;
  struct Counters;

  RpcServer(RpcLoop& loop, uint64_t id, std::string address, std::shared_ptr<Counters> counters)
      : loop_(loop), id_(id), address_(std::move(address)), counters_(std::move(counters)) {}

  RpcLoop& loop_;
  const uint64_t id_;
  const std::string address_;
  const std::shared_ptr<Counters> counters_;
};

}  // namespace leat
