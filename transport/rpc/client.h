// The calling end of the control plane. Includes Cap'n Proto: for .cc files.
#pragma once

#include <capnp/capability.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "devices/base/status.h"
#include "transport/rpc/call.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/limits.h"
#include "transport/rpc/loop.h"

namespace leat {

// The server to call, and the caller.
struct RpcClientOptions {
  // "127.0.0.1:4711", "master.example:4711".
  std::string address;
  RpcIdentity identity;
  // For the connection and the hello together.
  std::chrono::milliseconds deadline{5'000};
  RpcLimits limits;
  // Called once when the connection ends, unless the client's destructor ends it. The cause names
  // the peer. The client does not connect again by itself.
  // Threads: called on the loop's.
  std::function<void(const Status& cause)> on_lost;
};

// One connection to a server. The client outlives the server: when the server is gone, calls in
// flight and all later ones fail with `unavailable`. At most 1,000 calls are unfinished at a time;
// one more fails with `resource_exhausted` and is not sent.
//
//   auto master = RpcClient::connect(loop, {.address = "127.0.0.1:4711", .identity = me});
//   Result<uint64_t> job =
//       (*master)->call<Master>("Master.submit", 2s, [&](Master::Client master) {
//         auto request = master.submitRequest();
//         request.setName(name);
//         return request.send().then([](auto&& response) { return response.getJob(); });
//       });
//
// Threads: any, unless a member says otherwise.
class RpcClient {
 public:
  using Connected = Result<std::unique_ptr<RpcClient>>;

  // Waits until the peer has accepted the hello, at most to the deadline. Errors name the peer:
  // unavailable if it cannot be reached, failed_precondition if a field of the hello differs (the
  // message names it), or deadline_exceeded.
  // Threads: any but the loop's.
  static Connected connect(RpcLoop& loop, RpcClientOptions options);
  // The same without waiting. `done` is called once, on the loop's thread, and must not block.
  static void connect(RpcLoop& loop, RpcClientOptions options, std::function<void(Connected)> done);
  // Closes the connection. REQUIRES: the loop still exists; it may have stopped.
  ~RpcClient();
  RpcClient(const RpcClient&) = delete;
  RpcClient& operator=(const RpcClient&) = delete;

  // The server, as the handshake found it.
  const RpcPeer& peer() const { return peer_; }

  // The capability that the server gives to the role of this end.
  // Threads: the loop's.
  template <typename Interface>
  typename Interface::Client bootstrap() {
    return bootstrap_capability().template castAs<Interface>();
  }

  // Calls `function` with the bootstrap capability on the loop, and waits. `function` returns a
  // kj::Promise<T>; the result is that T or an error, at the latest at the deadline. `method` is
  // for messages.
  // Threads: any but the loop's.
  template <typename Interface, typename F>
  auto call(std::string_view method, std::chrono::nanoseconds deadline, F function) {
    return leat::call(loop_, bound<Interface>(std::move(function)), deadline, named(method));
  }
  // The same without waiting. start_call() of transport/rpc/call.h says how `done` is called. The
  // client must live until then.
  template <typename Interface, typename F, typename Done>
  void start(std::string_view method, std::chrono::nanoseconds deadline, F function, Done done) {
    start_call(loop_, bound<Interface>(std::move(function)), deadline, named(method),
               std::move(done));
  }

 private:
  class Connection;

  RpcClient(RpcLoop& loop, uint64_t id, Connection& connection, RpcPeer peer)
      : loop_(loop), id_(id), connection_(connection), peer_(std::move(peer)) {}
  static kj::Promise<Connected> open(RpcLoop& loop,
                                     std::shared_ptr<const RpcClientOptions> options);

  capnp::Capability::Client bootstrap_capability();
  std::string named(std::string_view method) const { return cat(method, " to ", peer_.address); }
  template <typename Interface, typename F>
  auto bound(F function) {
    return [this, function = std::move(function)]() mutable {
      return function(bootstrap<Interface>());
    };
  }

  RpcLoop& loop_;
  const uint64_t id_;
  // The loop owns it, under the number id_.
  Connection& connection_;
  const RpcPeer peer_;
};

}  // namespace leat
