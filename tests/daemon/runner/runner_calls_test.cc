// A runner refuses calls that no master makes, and boot messages that no worker sends.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <sys/socket.h>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/runner/wire_runner.h"
#include "tests/must.h"
#include "transport/io/descriptor.h"
#include "transport/rpc/call.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;

using WireClient = wire::Runner::Client;

RunnerTestOptions one_runner() {
  RunnerTestOptions options;
  options.runners = 1;
  return options;
}

// `function` takes the runner and returns a request.
template <typename F>
std::string refusal_of(RunnerTestCluster& cluster, F function) {
  auto ask = [&cluster, function] {
    return function(WireRunner::of(cluster, 0)).send().then([](auto&& response) {
      return status_of(response.getOutcome());
    });
  };
  return leat::call(cluster.loop(), std::move(ask), 30s, "a call").to_string();
}

// Returns the error of a runner that reads this boot message from a socket.
std::string booted(uint64_t size, const kj::ArrayPtr<const kj::byte> bytes) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  const Descriptor worker(ends[0]), runner(ends[1]);
  std::array<uint8_t, 8> head;
  for (size_t i = 0; i < head.size(); ++i) head[i] = static_cast<uint8_t>(size >> (8 * i));
  REQUIRE(::send(worker.get(), head.data(), head.size(), 0) == 8);
  REQUIRE(::send(worker.get(), bytes.begin(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
  REQUIRE(::shutdown(worker.get(), SHUT_WR) == 0);
  return read_runner_config(runner.get(), std::chrono::steady_clock::now() + 30s)
      .status()
      .to_string();
}

std::string booted_with_key(uint32_t key_bytes) {
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::RunnerBoot>().initSpec().initKey(key_bytes);
  const auto words = capnp::messageToFlatArray(message);
  return booted(words.asBytes().size(), words.asBytes());
}

}  // namespace

TEST_CASE("a boot message is whole words, so many and no more") {
  const std::string subject = "invalid_argument: runner's boot message: ";
  for (const uint64_t size : {uint64_t{0}, uint64_t{12}, (uint64_t{1} << 20) + 8, ~uint64_t{7}}) {
    CHECK(booted(size, {}) ==
          cat(subject, "expected whole words, at most 1048576 bytes, received ", size));
  }
  CHECK(booted_with_key(31) == subject + "key: expected 32 bytes, received 31");
  CHECK(booted_with_key(33) == subject + "key: expected 32 bytes, received 33");
  CHECK(booted_with_key(32) == "ok");
}

TEST_CASE("a call whose bytes cannot be is refused by the runner", "[cluster]") {
  RunnerTestCluster cluster(one_runner());
  CHECK(refusal_of(cluster, [](WireClient runner) {
          auto request = runner.connectRequest();
          request.initSetup().initCluster(15);
          return request;
        }) == "invalid_argument: setup: cluster: expected 16 bytes, received 15");
  const std::string digest = "invalid_argument: sha256: expected 32 bytes, received 31";
  CHECK(refusal_of(cluster, [](WireClient runner) {
          auto request = runner.prepareRequest();
          request.initPlanSha256(31);
          return request;
        }) == digest);
  CHECK(refusal_of(cluster, [](WireClient runner) {
          auto request = runner.writeVariablesRequest();
          request.initSha256(31);
          return request;
        }) == digest);
  CHECK(refusal_of(cluster, [](WireClient runner) {
          auto request = runner.writeVariablesRequest();
          request.setRestore(static_cast<wire::Restore>(4));
          request.initSha256(32);
          return request;
        }) == "invalid_argument: restore: expected 0 to 3, received 4");
  CHECK(refusal_of(cluster, [](WireClient runner) {
          auto request = runner.writeVariablesRequest();
          request.setSize((uint64_t{4} << 30) + 1);
          request.initSha256(32);
          return request;
        }) == "resource_exhausted: upload of 4294967297 bytes: expected at most 4294967296");
}

}  // namespace leat::testing
