// Tests a server that ends a connection.
#include <atomic>
#include <future>

#include "tests/catch.h"
#include "tests/transport/rpc_testing.h"

namespace leat {

TEST_CASE("a server drops one connection, and the others go on", "[cluster]") {
  auto loop = RpcLoop::start();
  REQUIRE(loop.ok());
  std::promise<uint64_t> first;
  std::atomic<int> peers{0};
  auto probe = probe_bootstrap(**loop);
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  auto server = RpcServer::listen(**loop, options, [&](const RpcPeer& peer) {
    if (peers++ == 0) first.set_value(peer.connection);
    return probe(peer);
  });
  REQUIRE(server.ok());
  std::promise<Status> lost;
  RpcClientOptions watching;
  watching.on_lost = [&](const Status& cause) { lost.set_value(cause); };
  ProbeCaller dropped((*server)->address(), watching);
  ProbeCaller kept((*server)->address());
  REQUIRE(dropped.echo("there").ok());

  const uint64_t connection = first.get_future().get();
  (*server)->drop(connection);
  auto cause = lost.get_future();
  REQUIRE(cause.wait_for(30s) == std::future_status::ready);
  CHECK(cause.get().code() == Code::unavailable);
  CHECK_FALSE(dropped.echo("still there?").ok());
  CHECK(kept.echo("here").ok());
  CHECK((*server)->counts().live == 1);
  (*server)->drop(connection);  // it has ended
  CHECK(kept.echo("here").ok());
}

}  // namespace leat
