// One guarded connection of Cap'n Proto. Includes KJ: for .cc files.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

#include "devices/base/status.h"
#include "transport/rpc/limits.h"

namespace leat {

struct LoopContext;

// Stands where capnp::TwoPartyVatNetwork does: the same two-party protocol over one stream, held to
// RpcLimits in both directions. It takes the bytes before the library does (MessageFraming), counts
// what passes (Ledger), and gives every message a deadline:
//
//   C1, C2, C3  a header is judged before memory is taken for it; a message is whole in time
//   C4, C5      unfinished calls are counted, with their bytes
//   C6          so are the capabilities held
//   C7          after 32 messages from one read the other connections have their turn; and a chain
//               of calls on calls is as deep as the calls that may be unfinished
//   C9          our own end sends at most 1,000 calls that are not finished; one more fails alone,
//               with OVERLOADED, before it is sent
//
// A limit passed ends the connection: the peer is sent the reason, and calls in flight fail with
// DISCONNECTED. It also saves system calls: reads are buffered, and all that is ready is written at
// once when the loop has nothing else to do.
// Threads: the loop's.
class GuardedNetwork final : public capnp::TwoPartyVatNetworkBase {
 public:
  // REQUIRES: `context` and `budget` outlive the object, and whoever uses it.
  GuardedNetwork(kj::Own<kj::AsyncIoStream> stream, capnp::rpc::twoparty::Side side,
                 const RpcLimits& limits, bool authenticated, LoopContext& context,
                 ByteBudget& budget);
  ~GuardedNetwork() noexcept(false);

  // Resolves when the connection has ended and its descriptor is closed.
  kj::Promise<void> on_disconnect();
  // Why it ended; ok while it has not.
  Status cause() const;

  kj::Maybe<kj::Own<Connection>> connect(capnp::rpc::twoparty::VatId::Reader id) override;
  kj::Promise<kj::Own<Connection>> accept() override;

 private:
  class GuardedConnection;
  class Outgoing;
  class Incoming;
  struct Shared;

  kj::Own<GuardedConnection> connection_;  // null when it is given away
  kj::Own<Shared> shared_;
  capnp::rpc::twoparty::Side side_;
  kj::ForkedPromise<void> disconnected_;
};

}  // namespace leat
