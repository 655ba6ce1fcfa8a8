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

namespace leat {

struct RpcServerOptions {
  // A literal address, or "localhost". Port 0 takes a free one: address() says which.
  std::string address = "127.0.0.1:0";
  RpcIdentity identity;
  RpcLimits limits;
  // An address that is not loopback is refused where the identity has no secret, unless this says
  // otherwise; then it is logged every minute.
  bool insecure_allow_network_without_authentication = false;

  // Before the hello is accepted.
  std::chrono::milliseconds handshake_deadline{5'000};
  size_t half_open = 256;  // one more takes the place of the oldest
  // New connections of one address. Loopback is spared: all users of a machine share it.
  double connections_per_second = 10;
  double connection_burst = 50;
  bool limit_loopback = false;
  // Only processes of this one's user, or of root, are let in: for an address of loopback.
  bool same_user = false;

  size_t connections = 4'096;      // accepted ones
  size_t clients = 2'048;          // of them of role client: people keep out no worker
  size_t held_bytes = 160u << 20;  // ByteBudget of all of them

  Logger log;
};

// Since the server began. Counts of connections.
struct RpcServerCounts {
  uint64_t accepted = 0;         // hello accepted
  uint64_t refused = 0;          // hello refused, or not one
  uint64_t half_open_ended = 0;  // no whole hello in time, or evicted
  uint64_t over_rate = 0;
  uint64_t no_descriptor = 0;  // turned away since the process had none left
  uint64_t dropped = 0;        // accepted, and ended by this end for what the peer did
  uint64_t live = 0;           // accepted and not ended
};

// Accepts connections by itself (KJ's own loop ends the process when descriptors run out: hazard
// C8; this one keeps a descriptor in reserve, turns callers away with it, and waits longer each
// time), lets nobody near Cap'n Proto before the hello is accepted, and then serves each peer the
// interface that is its role's over a GuardedNetwork.
//
//   auto server = RpcServer::listen(loop, options, [&](const RpcPeer& peer) {
//     return peer.role == RpcRole::worker ? kj::Maybe<capnp::Capability::Client>(worker_facing)
//                                         : nullptr;
//   });
//
// Threads: any but the loop's.
class RpcServer {
 public:
  // The capability that a peer starts from, or none: then its role is refused. On the loop's
  // thread, once for each connection.
  using Bootstrap = std::function<kj::Maybe<capnp::Capability::Client>(const RpcPeer&)>;

  // invalid_argument for an address or identity that makes no sense, failed_precondition for one
  // that would be insecure, unavailable for one that cannot be had.
  static Result<std::unique_ptr<RpcServer>> listen(RpcLoop& loop, RpcServerOptions options,
                                                   Bootstrap bootstrap);
  // Closes every connection; `bootstrap` is gone, and so are the capabilities that came of it but
  // for those held elsewhere. REQUIRES: the loop still exists (it may have stopped).
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // "127.0.0.1:4711"
  const std::string& address() const { return address_; }
  RpcServerCounts counts() const;

  // Ends the connection of RpcPeer::connection; nothing if it has ended. Does not wait.
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
