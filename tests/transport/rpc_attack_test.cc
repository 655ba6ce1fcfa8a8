// Attacks on a server, all of which must fail. C1 to C9 are hazards that were measured in the
// library alone: one client used up a gigabyte within seconds, another ended the process by taking
// all of its descriptors, and a client died when its server did.
#include <capnp/rpc.capnp.h>
#include <capnp/serialize.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/slowness.h"
#include "tests/transport/rpc_testing.h"

namespace leat {
namespace {

using probe::Probe;

constexpr size_t kMiB = 1u << 20;

uint32_t holding(ProbeCaller& caller) {
  const auto calls = caller.client->call<Probe>("Probe.holding", 30s, [](Probe::Client probe) {
    return probe.holdingRequest().send().then([](auto&& response) { return response.getCalls(); });
  });
  REQUIRE(calls.ok());
  return *calls;
}

size_t grown(const ServerProcess& server, size_t before) {
  const size_t now = server.rss();
  return now > before ? now - before : 0;
}

// Sends `count` calls of hold() with `bytes` bytes each, until the server drops the attacker.
void hold_many(NaiveClient& attacker, int count, size_t bytes) {
  const std::vector<kj::byte> filler(bytes);
  auto probe = attacker.bootstrap();
  std::vector<kj::Promise<void>> held;
  for (int i = 0; i < count; ++i) {
    auto request = probe.holdRequest();
    request.setBytes(kj::arrayPtr(filler.data(), filler.size()));
    held.push_back(request.send().ignoreResult().eagerlyEvaluate([](kj::Exception&&) {}));
    if (i % 100 == 99) kj::evalLast([] {}).wait(attacker.wait_scope());
  }
  CHECK(attacker.disconnected(30s));
}

}  // namespace

TEST_CASE("C1: a segment count that overflows reaches no allocation", "[cluster]") {
  const ProbeHost host;
  RawSocket attacker(host.server->address());
  attacker.greet();
  REQUIRE(attacker.write(header_of(0xffffffff, 0)));
  const auto rest = attacker.read_to_end();
  REQUIRE(rest.has_value());
  CHECK_THAT(*rest, Catch::Contains("4294967296 segments: expected at most 511"));
  CHECK(ProbeCaller(host.server->address()).echo("still there").ok());
}

TEST_CASE("C2: headers that claim gigabytes cost nothing", "[cluster]") {
  ServerProcess server;
  ProbeCaller caller(server.address);
  REQUIRE(caller.echo("warm").ok());
  const size_t rss = server.rss(), size = server.process.memory("VmSize");
  std::vector<RawSocket> attackers;
  for (int i = 0; i < 200; ++i) {
    attackers.emplace_back(server.address);
    attackers.back().greet();
    // Half of them claim too much. The others claim the most that is allowed, and stop.
    const uint32_t words = i % 2 == 0 ? (64 * kMiB) / 8 : kMiB / 8 - 1;
    REQUIRE(attackers.back().write(header_of(0, words)));
  }
  REQUIRE(caller.echo("still there").ok());
  const size_t more = grown(server, rss);
  const size_t more_size = server.process.memory("VmSize") - size;
  report(cat("C2: 200 headers: RSS +", mebibytes(more), ", VmSize +", mebibytes(more_size)));
  CHECK(more < allowed_growth(16 * kMiB));
  CHECK(more_size < allowed_growth(64 * kMiB));
}

TEST_CASE("C3: messages that stop before their end are held small and dropped", "[cluster]") {
  ServerProcess server({"LEAT_MESSAGE_DEADLINE_MS=500"});
  ProbeCaller caller(server.address);
  REQUIRE(caller.echo("warm").ok());
  const size_t rss = server.rss();
  std::vector<RawSocket> attackers;
  for (int i = 0; i < 20; ++i) {
    attackers.emplace_back(server.address);
    attackers.back().greet();
    if (i % 2 == 0) {
      // 63 MiB were claimed, so the other end hangs up before all of it is sent.
      REQUIRE(attackers.back().write(header_of(0, 63 * kMiB / 8)));
      CHECK_FALSE(attackers.back().write(std::string(63 * kMiB, 'x')));
    } else {
      REQUIRE(attackers.back().write(header_of(0, kMiB / 8 - 1)));
      REQUIRE(attackers.back().write(std::string(kMiB - 64, 'x')));
    }
  }
  REQUIRE(caller.echo("still there").ok());
  const size_t more = grown(server, rss);
  report(cat("C3: 20 messages of 63 and 1 MiB: RSS +", mebibytes(more)));
  CHECK(more < allowed_growth(48 * kMiB));
  for (int i = 1; i < 20; i += 2) {
    const auto rest = attackers[i].read_to_end();
    REQUIRE(rest.has_value());
    CHECK_THAT(*rest, Catch::Contains("message not whole within 500 ms"));
  }
}

TEST_CASE("C4: calls that are never answered are limited", "[cluster]") {
  ServerProcess server;
  SteadyEchoes others(server.address);
  const size_t rss = server.rss();
  std::string reason;
  size_t more;
  SECTION("by their number") {
    NaiveClient attacker(server.address);
    hold_many(attacker, 5'000, 16'384);
    more = grown(server, rss);
    reason = server.reason();
    CHECK_THAT(reason, Catch::Contains("more than 1024 calls not finished"));
  }
  SECTION("by their bytes") {
    NaiveClient attacker(server.address);
    hold_many(attacker, 200, 512'000);
    more = grown(server, rss);
    reason = server.reason();
    CHECK_THAT(reason, Catch::Contains("more than 33554432 bytes of calls not finished"));
  }
  const auto longest = others.longest();
  report(cat("C4: ", reason, ": RSS +", mebibytes(more), ", another's echo at most ",
             longest.count(), " ms"));
  CHECK(more < allowed_growth(48 * kMiB));
  CHECK(longest < 2s * kSlowness);
}

TEST_CASE("C5: a client that is killed leaves none of its calls behind", "[cluster]") {
  ServerProcess server;
  ProbeCaller caller(server.address);
  std::vector<size_t> after;
  for (int round = 0; round < 4; ++round) {
    OtherProcess client(kHoldingClient, {"LEAT_CLIENT_ADDRESS=" + server.address,
                                         "LEAT_CLIENT_CALLS=900", "LEAT_CLIENT_BYTES=16384"});
    client.line("holding");
    CHECK(holding(caller) == 900);
    client.kill();
    while (holding(caller) > 0) std::this_thread::yield();
    after.push_back(server.rss());
  }
  std::vector<std::string> sizes;
  for (const size_t size : after) sizes.push_back(mebibytes(size));
  report(cat("C5: RSS after each of 4 clients with 900 calls of 16 KiB: ", join(sizes, ", ")));
  // Each attacker had 14 MiB there.
  CHECK(after.back() < after.front() + allowed_growth(10 * kMiB));
}

TEST_CASE("C6: a peer holds so many capabilities and no more", "[cluster]") {
  ServerProcess server;
  SteadyEchoes others(server.address);
  const size_t rss = server.rss();
  std::string reason = "none";
  size_t taken = 0;
  {
    NaiveClient attacker(server.address);
    auto probe = attacker.bootstrap();
    kj::Vector<Probe::Client> kept;
    try {
      while (taken < 200'000) {
        kj::Vector<kj::Promise<Probe::Client>> some;
        for (int i = 0; i < 500; ++i) {
          some.add(
              probe.takeRequest().send().then([](auto&& response) { return response.getProbe(); }));
        }
        for (auto& one : some) kept.add(one.wait(attacker.wait_scope()));
        taken += 500;
      }
    } catch (const kj::Exception&) {
      reason = server.reason();
    }
  }
  CHECK_THAT(reason, Catch::Contains("more than 10000 capabilities taken"));
  const auto longest = others.longest();
  const size_t more = grown(server, rss);
  report(cat("C6: ", taken, " capabilities, then ", reason, ": RSS +", mebibytes(more),
             ", another's echo at most ", longest.count(), " ms"));
  CHECK(taken < 10'000);
  CHECK(more < allowed_growth(32 * kMiB));
  CHECK(longest < 2s * kSlowness);
}

TEST_CASE("C7: a chain of calls on calls is as deep as calls may be unfinished", "[cluster]") {
  ServerProcess server;
  SteadyEchoes others(server.address);
  const size_t rss = server.rss();
  bool dropped = true;
  std::string reason = "none";
  SECTION("20,000 deep") {
    NaiveClient attacker(server.address);
    auto probe = attacker.bootstrap();
    kj::Vector<Probe::Client> chain;
    chain.add(probe);
    for (int i = 0; i < 20'000; ++i) chain.add(chain.back().takeRequest().send().getProbe());
    dropped = attacker.disconnected(30s);
    reason = "20,000 deep";
    while (chain.size() > 1) chain.removeLast();  // saves the attacker's own stack
  }
  SECTION("a burst of 20,000, 900 at a time") {
    NaiveClient attacker(server.address);
    auto probe = attacker.bootstrap();
    for (int round = 0; round < 22; ++round) {
      kj::Vector<kj::Promise<void>> burst;
      for (int i = 0; i < 900; ++i) burst.add(probe.echoRequest().send().ignoreResult());
      for (auto& one : burst) one.wait(attacker.wait_scope());
    }
    reason = "burst";
  }
  CHECK(dropped);
  const auto longest = others.longest();
  const size_t more = grown(server, rss);
  report(cat("C7: ", reason, ": RSS +", mebibytes(more), ", another's echo at most ",
             longest.count(), " ms"));
  CHECK(more < allowed_growth(32 * kMiB));
  CHECK(longest < 2s * kSlowness);
}

TEST_CASE("C8: a server without descriptors turns callers away, and goes on", "[cluster]") {
  ServerProcess server({"LEAT_DESCRIPTORS=40"});
  {
    std::vector<RawSocket> attackers;
    for (int i = 0; i < 100; ++i) attackers.emplace_back(server.address);
    CHECK(attackers.back().read_to_end().has_value());  // refused
    CHECK(server.process.running());
  }
  Status last;
  for (int i = 0; i < 100; ++i) {
    const auto loop = std::move(RpcLoop::start().value());
    const auto client = RpcClient::connect(*loop, {.address = server.address,
                                                   .identity = test_identity(),
                                                   .deadline = 30s,
                                                   .limits = {},
                                                   .on_lost = {}});
    last = client.status();
    if (last.ok()) break;
  }
  CHECK(last.ok());
}

TEST_CASE("C9: a client outlives the server that it has calls at", "[cluster]") {
  ServerProcess server;
  std::promise<Status> lost;
  RpcClientOptions options;
  options.on_lost = [&](const Status& cause) { lost.set_value(cause); };
  ProbeCaller caller(server.address, options);
  REQUIRE(caller.echo("now there is no other call").ok());
  std::atomic<int> exhausted{0}, unavailable{0}, other{0};
  constexpr int kCalls = 20'000;
  for (int i = 0; i < kCalls; ++i) {
    caller.client->start<Probe>(
        "Probe.hold", 60s,
        [](Probe::Client probe) { return probe.holdRequest().send().ignoreResult(); },
        [&](const Status& status) {
          const Code code = status.code();
          ++(code == Code::resource_exhausted ? exhausted
             : code == Code::unavailable      ? unavailable
                                              : other);
        });
  }
  while (exhausted < kCalls - 1000) std::this_thread::yield();
  CHECK(caller.echo("one more").status().code() == Code::resource_exhausted);
  CHECK(unavailable == 0);
  server.process.kill();
  auto told = lost.get_future();
  REQUIRE(told.wait_for(30s) == std::future_status::ready);
  CHECK(told.get().code() == Code::unavailable);
  while (exhausted + unavailable + other < kCalls) std::this_thread::yield();
  CHECK(unavailable == kCalls - exhausted);
  CHECK(unavailable == 1000);
  CHECK(caller.echo("gone").status().code() == Code::unavailable);
}

// Messages of a peer that writes Cap'n Proto by hand.
class HandMade {
 public:
  // Asks for the server's Probe: question 0.
  HandMade() {
    capnp::MallocMessageBuilder message;
    message.initRoot<capnp::rpc::Message>().initBootstrap().setQuestionId(0);
    add(message);
  }
  // Calls fill(512 KiB) on it with the questions [first, first + count).
  void call_fill(uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      capnp::MallocMessageBuilder message;
      auto call = message.initRoot<capnp::rpc::Message>().initCall();
      call.setQuestionId(first + i);
      call.initTarget().initPromisedAnswer().setQuestionId(0);
      call.setInterfaceId(capnp::typeId<Probe>());
      call.setMethodId(9);
      call.initParams().getContent().initAs<Probe::FillParams>().setSize(kMiB / 2);
      add(message);
    }
  }
  void finish(uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      capnp::MallocMessageBuilder message;
      message.initRoot<capnp::rpc::Message>().initFinish().setQuestionId(first + i);
      add(message);
    }
  }
  // Returns the bytes that were added since the last take().
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  void add(capnp::MallocMessageBuilder& message) {
    const auto words = capnp::messageToFlatArray(message);
    bytes_.append(reinterpret_cast<const char*>(words.asBytes().begin()), words.asBytes().size());
  }
  std::string bytes_;
};

TEST_CASE("a peer that does not read what it asked for is dropped", "[cluster]") {
  ServerProcess server;
  ProbeCaller caller(server.address);
  REQUIRE(caller.echo("warm").ok());
  const size_t rss = server.rss();
  RawSocket attacker(server.address);
  attacker.greet();
  HandMade calls;
  calls.call_fill(1, 1000);
  REQUIRE(attacker.write(calls.take()));
  while (ProbeCaller(server.address).echo("others are served").ok() == false) {
  }
  const auto rest = attacker.read_to_end();
  REQUIRE(rest.has_value());
  const size_t more = grown(server, rss);
  report(cat("a peer that does not read 500 MiB: RSS +", mebibytes(more), ", it was sent ",
             mebibytes(rest->size())));
  CHECK(rest->size() < 100 * kMiB);
  CHECK(more < allowed_growth(128 * kMiB));
}

// Its calls are finished, so no limit of calls applies. The limit of unread bytes does.
TEST_CASE("a peer that lets go of answers that it never reads is dropped", "[cluster]") {
  ServerProcess server;
  ProbeCaller caller(server.address);
  REQUIRE(caller.echo("warm").ok());
  RawSocket attacker(server.address);
  attacker.greet();
  HandMade messages;
  constexpr uint32_t kCalls = 40;
  for (uint32_t round = 0; round < 5; ++round) {
    messages.call_fill(1 + round * kCalls, kCalls);
    if (!attacker.write(messages.take())) break;
    // These are answered after the answers above were made.
    for (int i = 0; i < 3; ++i) REQUIRE(caller.echo("others are served").ok());
    messages.finish(1 + round * kCalls, kCalls);
    if (!attacker.write(messages.take())) break;
  }
  CHECK_THAT(server.reason(), Catch::Contains("bytes that the peer does not read"));
}

TEST_CASE("connections that say nothing, or half a hello, are let go", "[cluster]") {
  RpcServerOptions options;
  options.handshake_deadline = 100ms;
  const ProbeHost host(options);
  RawSocket silent(host.server->address()), halfway(host.server->address());
  REQUIRE(halfway.write("LEAT and no more"));
  CHECK(silent.read_to_end() == "");
  CHECK(halfway.read_to_end() == "");
  CHECK(host.server->counts().half_open_ended == 2);
  CHECK(host.server->counts().live == 0);
}

TEST_CASE("the oldest of too many half-open connections makes room", "[cluster]") {
  RpcServerOptions options;
  options.half_open = 4;
  const ProbeHost host(options);
  std::vector<RawSocket> silent;
  for (int i = 0; i < 5; ++i) silent.emplace_back(host.server->address());
  CHECK(silent[0].read_to_end() == "");
  CHECK(ProbeCaller(host.server->address()).echo("there is room").ok());
}

TEST_CASE("one address opens connections at its rate and no faster", "[cluster]") {
  RpcServerOptions options;
  options.limit_loopback = true;
  options.connections_per_second = 0.001;
  options.connection_burst = 3;
  const ProbeHost host(options);
  std::vector<RawSocket> sockets;
  for (int i = 0; i < 3; ++i) {
    sockets.emplace_back(host.server->address());
    sockets.back().greet();
  }
  RawSocket one_more(host.server->address());
  CHECK(one_more.read_to_end() == "");
  CHECK(host.server->counts().over_rate == 1);
}

TEST_CASE("random bytes before the hello are let go without an answer", "[cluster]") {
  const ProbeHost host;
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    RawSocket attacker(host.server->address());
    std::string noise(kRpcHelloBytes + random() % 100, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    attacker.write(noise);
    CHECK(attacker.read_to_end() == "");
  }
  CHECK(ProbeCaller(host.server->address()).echo("still there").ok());
}

TEST_CASE("random bytes after the hello end that connection alone", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    RawSocket attacker(host.server->address());
    attacker.greet();
    // Raw noise, or noise that is framed as a message so that it gets further.
    const uint32_t words = 1 + random() % 40;
    std::string noise(8 * words, '\0');
    for (char& byte : noise) byte = static_cast<char>(random() % 4 == 0 ? random() : random() % 3);
    attacker.write(i % 2 == 0 ? noise : header_of(0, words) + noise);
  }
  CHECK(caller.echo("still there").ok());
}

TEST_CASE("a connection that is reset ends alone", "[cluster]") {
  // A read error used to cancel the promise that it came from, which crashed the process.
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  for (int i = 0; i < 50; ++i) {
    RawSocket attacker(host.server->address());
    attacker.greet();
    REQUIRE(attacker.write(header_of(0, 100)));
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(attacker.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  CHECK(caller.echo("still there").ok());
}

}  // namespace leat
