// One connection of Cap'n Proto, held to limits. Includes KJ: for .cc files.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

#include "devices/base/status.h"
#include "transport/rpc/limits.h"

namespace leat {

struct LoopContext;

// Stands in the place of capnp::TwoPartyVatNetwork. It speaks the same two-party protocol over one
// stream, and holds both directions to RpcLimits. It reads the bytes before the library does
// (MessageFraming), counts what passes (Ledger), and gives every message a deadline:
//
// - A header is judged before memory is taken for it, and a message must be whole in time.
// - Unfinished calls are counted, with their bytes, and so are the capabilities that are held.
// - After 32 messages the other connections have their turn.
// - A chain of calls on calls is at most as deep as the number of calls that may be unfinished.
// - Our own end has at most 1,000 unfinished calls. One more fails alone, with OVERLOADED, before
//   it is sent.
//
// A connection that passes a limit ends: the peer is sent the reason, and calls in flight fail with
// DISCONNECTED. The class also saves system calls: reads are buffered, and everything that is ready
// is written at once when the loop has nothing else to do.
// Threads: the loop's.
class GuardedNetwork final : public capnp::TwoPartyVatNetworkBase {
 public:
  // `authenticated` chooses the limit of a message. REQUIRES: `context` and `budget` outlive the
  // object and the RPC system that uses it.
  GuardedNetwork(kj::Own<kj::AsyncIoStream> stream, capnp::rpc::twoparty::Side side,
                 const RpcLimits& limits, bool authenticated, LoopContext& context,
                 ByteBudget& budget);
  ~GuardedNetwork() noexcept(false);

  // Resolves when the connection has ended and its descriptor is closed.
  kj::Promise<void> on_disconnect();
  // Why it ended; ok while it has not.
  Status cause() const;

  // The two functions that the library gets the one connection by, as client or as server.
  kj::Maybe<kj::Own<Connection>> connect(capnp::rpc::twoparty::VatId::Reader id) override;
  kj::Promise<kj::Own<Connection>> accept() override;

 private:
  class GuardedConnection;
  class Outgoing;
  class Incoming;
  struct Shared;

  // Null after the library has taken it.
  kj::Own<GuardedConnection> connection_;
  kj::Own<Shared> shared_;
  capnp::rpc::twoparty::Side side_;
  kj::ForkedPromise<void> disconnected_;
};

}  // namespace leat
