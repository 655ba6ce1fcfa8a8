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

struct RpcClientOptions {
  std::string address;  // "127.0.0.1:4711", "master.example:4711"
  RpcIdentity identity;
  std::chrono::milliseconds deadline{5'000};  // of connection and hello together
  RpcLimits limits;
  // Called once, on the loop's thread, when the connection ends by anything but the destruction of
  // the client; with the cause, which names the peer. To connect again is the caller's affair.
  std::function<void(const Status& cause)> on_lost;
};

// One connection to a server. It survives the server: when that dies, calls in flight and all later
// ones fail with `unavailable` (hazard C9). At most 1,000 calls are unfinished at a time; one more
// fails with `resource_exhausted` by itself, and was not sent.
//
//   auto master = RpcClient::connect(loop, {.address = "127.0.0.1:4711", .identity = me});
//   Result<uint64_t> job = (*master)->call<Master>("Master.submit", 2s, [&](Master::Client master)
//   {
//     auto request = master.submitRequest();
//     request.setName(name);
//     return request.send().then([](auto&& response) { return response.getJob(); });
//   });
//
// Threads: any, unless a member says otherwise.
class RpcClient {
 public:
  using Connected = Result<std::unique_ptr<RpcClient>>;

  // Waits until the peer has accepted the hello, or to the deadline. Errors name the peer: it
  // cannot be reached (unavailable), it differs (failed_precondition, which names the field), or
  // the deadline. Not from the loop's thread.
  static Connected connect(RpcLoop& loop, RpcClientOptions options);
  // The same without waiting. `done` is called once, on the loop's thread, and must not block.
  static void connect(RpcLoop& loop, RpcClientOptions options, std::function<void(Connected)> done);
  // Closes the connection. REQUIRES: the loop still exists (it may have stopped).
  ~RpcClient();
  RpcClient(const RpcClient&) = delete;
  RpcClient& operator=(const RpcClient&) = delete;

  const RpcPeer& peer() const { return peer_; }

  // The capability that the server gives this end's role. Threads: the loop's.
  template <typename Interface>
  typename Interface::Client bootstrap() {
    return bootstrap_capability().template castAs<Interface>();
  }

  // `function` takes the bootstrap capability and returns a kj::Promise<T>; this is T, or the
  // error, at the latest at the deadline. `method` is for messages. Not from the loop's thread.
  template <typename Interface, typename F>
  auto call(std::string_view method, std::chrono::nanoseconds deadline, F function) {
    return leat::call(loop_, bound<Interface>(std::move(function)), deadline, named(method));
  }
  // The same without waiting: start_call() of transport/rpc/call.h tells about `done`. The client
  // must live until it is called.
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
  Connection& connection_;  // lives on the loop
  const RpcPeer peer_;
};

}  // namespace leat
