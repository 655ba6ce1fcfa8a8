// Tests servers and clients that follow the protocol.
#include <arpa/inet.h>
#include <capnp/message.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/transport/rpc_testing.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/hello.h"

namespace leat {
namespace {

using probe::Probe;

constexpr char kSecret[] = "a secret of the cluster";

std::shared_ptr<const Blob> pattern(size_t size) {
  Blob blob(size);
  for (size_t i = 0; i < size; ++i) blob[i] = static_cast<std::byte>(i * 31 >> 3);
  return std::make_shared<const Blob>(std::move(blob));
}

// Sends `blob` with this description, which may be wrong.
Status send(ProbeCaller& caller, std::shared_ptr<const Blob> blob, BlobInfo info) {
  return caller.client->call<Probe>("Probe.send", 20s, [blob, info](Probe::Client probe) {
    auto request = probe.sendRequest();
    request.setSize(info.size);
    request.setSha256(kj::arrayPtr(info.sha256.data(), info.sha256.size()));
    return request.send().then([blob](auto&& response) -> kj::Promise<Status> {
      const auto outcome = response.getOutcome();
      if (Status status = status_of(outcome); !status.ok()) return status;
      return upload(outcome.getOk(), blob);
    });
  });
}

Result<std::unique_ptr<RpcClient>> connect(RpcLoop& loop, const std::string& address,
                                           std::chrono::milliseconds deadline) {
  return RpcClient::connect(loop, {.address = address,
                                   .identity = test_identity(),
                                   .deadline = deadline,
                                   .limits = {},
                                   .on_lost = {}});
}

uint32_t calls_held(ProbeCaller& caller) {
  const auto calls = caller.client->call<Probe>("Probe.holding", 30s, [](Probe::Client probe) {
    return probe.holdingRequest().send().then([](auto&& response) { return response.getCalls(); });
  });
  REQUIRE(calls.ok());
  return *calls;
}

Result<Blob> fetch(ProbeCaller& caller, uint64_t max_bytes) {
  return caller.client->call<Probe>("Probe.fetch", 20s, [max_bytes](Probe::Client probe) {
    return probe.fetchRequest().send().then([max_bytes](auto&& response) {
      BlobInfo info{.size = response.getSize(), .sha256 = {}};
      info.sha256 = read_digest(response.getSha256()).value();
      return download(response.getFrom(), info, max_bytes);
    });
  });
}

}  // namespace

TEST_CASE("a call goes there and back", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  const auto echoed = caller.echo("hello");
  INFO(echoed.status());
  REQUIRE(echoed.ok());
  CHECK(*echoed == "hello");
  CHECK(caller.client->peer().features == 3);
  CHECK_FALSE(caller.client->peer().authenticated);
  CHECK(host.server->counts().live == 1);
}

TEST_CASE("peers with the secret are authenticated, and may send larger messages", "[cluster]") {
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.identity.secret = kSecret;
  const ProbeHost host(options);
  RpcClientOptions mine;
  mine.identity = test_identity();
  mine.identity.secret = kSecret;
  ProbeCaller caller(host.server->address(), mine);
  CHECK(caller.client->peer().authenticated);
  const auto echoed = caller.echo(std::string(4u << 20, 'x'));
  INFO(echoed.status());
  REQUIRE(echoed.ok());
  CHECK(echoed->size() == 4u << 20);
}

TEST_CASE("a message that the peer would not take is not sent, and harms nothing", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  const auto large = caller.echo(std::string(1u << 20, 'x'));
  CHECK(large.status().code() == Code::resource_exhausted);
  CHECK_THAT(large.status().message(), Catch::Contains("expected at most 1048576 bytes"));
  CHECK(caller.echo("small").ok());
  const auto filled = caller.client->call<Probe>("Probe.fill", 30s, [](Probe::Client probe) {
    auto request = probe.fillRequest();
    request.setSize(2u << 20);
    return request.send().ignoreResult();
  });
  CHECK(filled.code() == Code::resource_exhausted);
  CHECK(caller.echo("small").ok());
}

TEST_CASE("a call that is not answered ends at its deadline, and frees the server", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  const Status held = caller.client->call<Probe>("Probe.hold", 50ms, [](Probe::Client probe) {
    return probe.holdRequest().send().ignoreResult();
  });
  CHECK(held.code() == Code::deadline_exceeded);
  CHECK(held.message() ==
        cat("Probe.hold to ", host.server->address(), ": no answer within 50 ms"));
  while (calls_held(caller) != 0) std::this_thread::yield();
}

TEST_CASE("an error of a method keeps its code and its message", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  for (int code = 1; code <= static_cast<int>(Code::internal); ++code) {
    const Status sent(static_cast<Code>(code), "subject: expected 1, received 2");
    const Status came = caller.client->call<Probe>("Probe.fail", 30s, [&](Probe::Client probe) {
      auto request = probe.failRequest();
      write_status(sent, request.initHow());
      return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
    });
    CHECK(came.to_string() == sent.to_string());
  }
}

TEST_CASE("a method that throws is internal, one that is missing unimplemented", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  const Status thrown = caller.client->call<Probe>("Probe.crash", 30s, [](Probe::Client probe) {
    return probe.crashRequest().send().ignoreResult();
  });
  CHECK(thrown.code() == Code::internal);
  CHECK_THAT(thrown.message(), Catch::Contains("it broke"));
  const Status missing = caller.client->call<wire::Download>(
      "Download.read", 30s,
      [](wire::Download::Client other) { return other.readRequest().send().ignoreResult(); });
  CHECK(missing.code() == Code::unimplemented);
}

TEST_CASE("a method may be answered by another thread", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  const auto answer = caller.client->call<Probe>("Probe.elsewhere", 30s, [](Probe::Client probe) {
    auto request = probe.elsewhereRequest();
    request.setText("from there");
    return request.send().then(
        [](auto&& response) { return std::string(response.getText().cStr()); });
  });
  REQUIRE(answer.ok());
  CHECK(*answer == "from there");
}

TEST_CASE("a difference between two ends is named to the caller", "[cluster]") {
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.identity.required_features = 2;
  const ProbeHost host(options);
  const auto loop = std::move(RpcLoop::start().value());
  const auto refusal = [&](const RpcIdentity& identity) {
    return RpcClient::connect(*loop, {.address = host.server->address(),
                                      .identity = identity,
                                      .deadline = 30s,
                                      .limits = {},
                                      .on_lost = {}})
        .status();
  };
  RpcIdentity wrong = test_identity();
  std::string named;
  SECTION("version") {
    wrong.protocol_version = 1;
    named = "protocol version of";
  }
  SECTION("features") {
    wrong.features = 1;
    named = "expected also 0x2";
  }
  SECTION("cluster") {
    wrong.cluster = "other";
    named = "does not belong to cluster 'other'";
  }
  SECTION("role") {
    wrong.role = RpcRole::runner;
    named = "it has nothing for the role runner";
  }
  SECTION("secret") {
    wrong.secret = kSecret;
    named = "authentication failed";
  }
  const Status status = refusal(wrong);
  CHECK(status.code() == Code::failed_precondition);
  CHECK_THAT(status.message(), Catch::Contains(named) && Catch::Contains(host.server->address()));
  CHECK(refusal(test_identity()).ok());
}

TEST_CASE("a server that is not there is unavailable", "[cluster]") {
  std::string address;
  { address = ProbeHost().server->address(); }
  const auto loop = std::move(RpcLoop::start().value());
  const auto client = connect(*loop, address, 30s);
  CHECK(client.status().code() == Code::unavailable);
  CHECK_THAT(client.status().message(), Catch::Contains(address));
}

TEST_CASE("a server that says nothing costs a caller its deadline and no more", "[cluster]") {
  // The backlog takes the connection, but no server accepts it.
  std::atomic<bool> release{false};  // outlives the host's loop, which reads it
  RpcServerOptions options;
  const ProbeHost host(options);
  REQUIRE(host.loop->post([&] {
    while (!release) std::this_thread::yield();
  }));
  const auto loop = std::move(RpcLoop::start().value());
  const auto client = connect(*loop, host.server->address(), 50ms);
  CHECK(client.status().code() == Code::deadline_exceeded);
  release = true;
}

TEST_CASE("a server that hangs up in the middle of the hello is unavailable", "[cluster]") {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&name), size) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size) == 0);
  std::thread server([listener] {
    const int peer = ::accept(listener, nullptr, nullptr);
    (void)!::write(peer, "LEA", 3);
    ::shutdown(peer, SHUT_WR);
    char bytes[256];
    while (::read(peer, bytes, sizeof bytes) > 0) {
    }
    ::close(peer);
  });
  const std::string address = cat("127.0.0.1:", ntohs(name.sin_port));
  const auto loop = std::move(RpcLoop::start().value());
  const auto client = connect(*loop, address, 30s);
  server.join();
  ::close(listener);
  CHECK(client.status().code() == Code::unavailable);
  CHECK_THAT(client.status().message(),
             Catch::Contains(": " + address + " hung up in the middle of the hello"));
}

namespace {

// Returns the bytes that the server sends after the answer and the verdict to a peer that it has
// refused: none, since it has closed.
std::string after_refusal(const std::string& address, const RpcIdentity& identity, bool proves) {
  RawSocket socket(address);
  OpenerHandshake handshake(identity, address, random_nonce());
  const auto text = [](const auto& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  REQUIRE(socket.write(text(handshake.hello())));
  RpcAnswer answer{};
  const std::string read = socket.read(answer.size());
  REQUIRE(read.size() == answer.size());
  std::memcpy(answer.data(), read.data(), read.size());
  const auto proof = handshake.on_answer(answer);
  CHECK(proof.ok() == proves);
  (void)socket.write(text(proof.ok() ? *proof : Proof{}));
  if (proves) CHECK(socket.read(Verdict().size()).size() == Verdict().size());
  (void)socket.write(header_of(0, 1) + std::string(8, '\0'));
  const auto rest = socket.read_to_end();
  return rest ? *rest : "still open";
}

}  // namespace

TEST_CASE("a peer that was refused and goes on all the same is not served", "[cluster]") {
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.identity.secret = kSecret;
  const ProbeHost host(options);
  RpcIdentity identity = test_identity();
  identity.secret = "another secret than the cluster's";
  CHECK(after_refusal(host.server->address(), identity, true).empty());
  identity.secret = kSecret;
  ++identity.protocol_version;
  CHECK(after_refusal(host.server->address(), identity, false).empty());
}

TEST_CASE("half a hello has no answer", "[cluster]") {
  const ProbeHost host;
  RawSocket socket(host.server->address());
  const OpenerHandshake handshake(test_identity(), "there:1", random_nonce());
  REQUIRE(socket.write(std::string(reinterpret_cast<const char*>(handshake.hello().data()), 20)));
  REQUIRE(::shutdown(socket.descriptor(), SHUT_WR) == 0);
  CHECK(socket.read_to_end() == "");
}

TEST_CASE("a server does not begin on a loop that has stopped", "[cluster]") {
  const auto loop = std::move(RpcLoop::start().value());
  loop->stop();
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  const auto none = [](const RpcPeer&) -> kj::Maybe<capnp::Capability::Client> { return nullptr; };
  const auto server = RpcServer::listen(*loop, options, none);
  CHECK(server.status().code() == Code::cancelled);
  CHECK_THAT(server.status().message(), Catch::StartsWith("cannot listen on 127.0.0.1:") &&
                                            Catch::EndsWith("the rpc thread has stopped"));
}

TEST_CASE("a peer that would hold more than the server's memory is dropped", "[cluster]") {
  RpcServerOptions options;
  options.held_bytes = 256 << 10;
  const ProbeHost host(options);
  RawSocket greedy(host.server->address());
  greedy.greet();
  REQUIRE(greedy.write(header_of(0, (1 << 20) / 8 - 8)));
  (void)greedy.write(std::string(768 << 10, 'x'));  // may be dropped before all is sent
  const auto rest = greedy.read_to_end();
  REQUIRE(rest.has_value());
  CHECK_THAT(*rest, Catch::Contains("no memory left for the"));
  ProbeCaller caller(host.server->address());
  CHECK(caller.echo("still there").ok());
}

TEST_CASE("an address of the network needs a secret, or a flag that says insecure", "[cluster]") {
  const auto loop = std::move(RpcLoop::start().value());
  RpcServerOptions options;
  options.address = "0.0.0.0:0";
  options.identity = test_identity(RpcRole::master);
  const auto none = [](const RpcPeer&) -> kj::Maybe<capnp::Capability::Client> { return nullptr; };
  const auto refused = RpcServer::listen(*loop, options, none);
  CHECK(refused.status().code() == Code::failed_precondition);
  options.insecure_allow_network_without_authentication = true;
  CHECK(RpcServer::listen(*loop, options, none).ok());
  options.insecure_allow_network_without_authentication = false;
  options.identity.secret = kSecret;
  CHECK(RpcServer::listen(*loop, options, none).ok());
}

TEST_CASE("a port that is taken is unavailable", "[cluster]") {
  const ProbeHost host;
  RpcServerOptions options;
  options.address = host.server->address();
  options.identity = test_identity(RpcRole::master);
  const auto second = RpcServer::listen(*host.loop, options, probe_bootstrap(*host.loop));
  CHECK(second.status().code() == Code::unavailable);
  CHECK_THAT(second.status().message(), Catch::Contains(options.address));
}

TEST_CASE("the end of a server is told to its clients", "[cluster]") {
  std::promise<std::string> lost;
  RpcClientOptions options;
  options.on_lost = [&](const Status& cause) { lost.set_value(cause.to_string()); };
  auto host = std::make_unique<ProbeHost>();
  const std::string address = host->server->address();
  ProbeCaller caller(address, options);
  REQUIRE(caller.echo("there").ok());
  host.reset();
  auto told = lost.get_future();
  REQUIRE(told.wait_for(30s) == std::future_status::ready);
  CHECK_THAT(told.get(), Catch::StartsWith("unavailable: ") &&
                             Catch::EndsWith(cat("; while connected to ", address)));
  CHECK(caller.echo("gone").status().code() == Code::unavailable);
}

TEST_CASE("a client that goes is not told that it has gone", "[cluster]") {
  const ProbeHost host;
  bool lost = false;
  {
    RpcClientOptions options;
    options.on_lost = [&](const Status&) { lost = true; };
    ProbeCaller caller(host.server->address(), options);
    REQUIRE(caller.echo("there").ok());
  }
  CHECK_FALSE(lost);
}

TEST_CASE("a server takes so many connections and says that it is busy", "[cluster]") {
  RpcServerOptions options;
  options.connections = 1;
  const ProbeHost host(options);
  const ProbeCaller first(host.server->address());
  const auto second = RpcClient::connect(*first.loop, {.address = host.server->address(),
                                                       .identity = test_identity(),
                                                       .deadline = 30s,
                                                       .limits = {},
                                                       .on_lost = {}});
  CHECK(second.status().code() == Code::unavailable);
  CHECK_THAT(second.status().message(), Catch::Contains("no room for more connections"));
}

TEST_CASE("connections of clients keep out no worker", "[cluster]") {
  RpcServerOptions options;
  options.connections = 3;
  options.clients = 1;
  const ProbeHost host(options);
  const auto connect = [&](const ProbeCaller& on, RpcRole role) {
    return RpcClient::connect(*on.loop, {.address = host.server->address(),
                                         .identity = test_identity(role),
                                         .deadline = 30s,
                                         .limits = {},
                                         .on_lost = {}});
  };
  auto first = std::make_unique<ProbeCaller>(host.server->address());
  const ProbeHost elsewhere;
  const ProbeCaller other(elsewhere.server->address());
  CHECK(connect(other, RpcRole::client).status().code() == Code::unavailable);
  const auto worker = connect(other, RpcRole::worker);
  CHECK(worker.ok());
  first.reset();  // makes room for another, once the server has seen it
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  auto next = connect(other, RpcRole::client);
  while (!next.ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    next = connect(other, RpcRole::client);
  }
  INFO(next.status());
  CHECK(next.ok());
}

TEST_CASE("clients that come at once take no more than the connections there are", "[cluster]") {
  RpcServerOptions options;
  options.connections = 2;
  const ProbeHost host(options);
  std::vector<std::unique_ptr<RpcLoop>> loops;
  for (int i = 0; i < 8; ++i) loops.push_back(std::move(RpcLoop::start().value()));
  std::vector<std::future<Result<std::unique_ptr<RpcClient>>>> arriving;
  for (const auto& loop : loops) {
    arriving.push_back(std::async(std::launch::async, [&host, &loop] {
      return connect(*loop, host.server->address(), 30s);
    }));
  }
  std::vector<Result<std::unique_ptr<RpcClient>>> arrived;
  for (auto& one : arriving) arrived.push_back(one.get());
  CHECK(std::ranges::count_if(arrived, [](const auto& one) { return one.ok(); }) == 2);
}

TEST_CASE("blobs travel in chunks and arrive whole", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{kTransferBytes}, size_t{(3u << 20) + 5}}) {
    CAPTURE(size);
    const auto blob = pattern(size);
    const Status sent = send(caller, blob, describe(*blob));
    INFO(sent);
    REQUIRE(sent.ok());
    const auto fetched = fetch(caller, 4u << 20);
    INFO(fetched.status());
    REQUIRE(fetched.ok());
    CHECK(*fetched == *blob);
  }
}

TEST_CASE("a blob that is too large is refused before its first byte", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  const Status sent = send(caller, pattern(0), {.size = uint64_t{1} << 40, .sha256 = {}});
  CHECK(sent.to_string() ==
        "resource_exhausted: upload of 1099511627776 bytes: expected at most 4194304");
  REQUIRE(send(caller, pattern(1000), describe(*pattern(1000))).ok());
  CHECK(fetch(caller, 999).status().code() == Code::resource_exhausted);
}

TEST_CASE("a blob that is not what was described is refused at its end", "[cluster]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  BlobInfo info = describe(*pattern(1000));
  SECTION("other bytes") {
    info.sha256[0] ^= 1;
    CHECK_THAT(send(caller, pattern(1000), info).message(), Catch::Contains("blob's sha256"));
  }
  SECTION("fewer bytes") {
    CHECK(send(caller, pattern(999), info).message() ==
          "upload: expected 1000 bytes, received 999");
  }
  SECTION("more bytes") {
    CHECK_THAT(send(caller, pattern(1001), info).message(),
               Catch::Contains("expected at most 1048576 bytes at offset 0, received 1001 at 0"));
  }
  CHECK(caller.echo("still there").ok());
}

namespace {

// Answers every read with fixed bytes.
class Lying final : public wire::Download::Server {
 public:
  explicit Lying(size_t size) : bytes_(size) {}
  kj::Promise<void> read(ReadContext context) override {
    context.getResults().initOutcome().setOk(
        kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes_.data()), bytes_.size()));
    return kj::READY_NOW;
  }

 private:
  const Blob bytes_;
};

Status download_from(size_t size, const BlobInfo& info) {
  const auto loop = std::move(RpcLoop::start().value());
  return call(
             *loop, [&] { return download(kj::heap<Lying>(size), info, 1 << 20); }, 30s, "download")
      .status();
}

}  // namespace

TEST_CASE("a download that is not what was described is refused", "[cluster]") {
  const BlobInfo info = describe(Blob(1000));
  CHECK(download_from(1000, info).ok());
  CHECK(download_from(999, info).message() == "read of 1000 bytes at offset 0: received 999");
  CHECK(download_from(1001, info).message() == "read of 1000 bytes at offset 0: received 1001");
  BlobInfo other = info;
  other.sha256[0] ^= 1;
  const Status status = download_from(1000, other);
  CHECK(status.code() == Code::internal);
  CHECK_THAT(status.message(), Catch::Contains("blob's sha256"));
}

TEST_CASE("an error of a code that is not known is internal") {
  for (const uint16_t code : {0, 9, 65535}) {
    capnp::MallocMessageBuilder message;
    auto status = message.initRoot<wire::Status>();
    status.setCode(static_cast<wire::Status::Code>(code));
    status.setMessage("why");
    CHECK(read_status(status.asReader()).to_string() ==
          cat("internal: error of unknown code ", code, ": why"));
  }
}

TEST_CASE("how long an echo takes", "[.measure]") {
  const ProbeHost host;
  ProbeCaller caller(host.server->address());
  std::vector<double> micros;
  for (int i = 0; i < 5000; ++i) {
    const auto before = std::chrono::steady_clock::now();
    REQUIRE(caller.echo("hello").ok());
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before)
            .count());
  }
  std::sort(micros.begin(), micros.end());
  std::printf("echo from another thread: p50 %.0f us, p99 %.0f us\n", micros[2500], micros[4950]);
  const auto inside = caller.client->call<Probe>("Probe.echo", 60s, [&](Probe::Client probe) {
    micros.clear();
    return kj::evalNow([&micros, probe]() mutable {
      struct Loop {
        std::vector<double>& micros;
        Probe::Client probe;
        kj::Promise<int> next() {
          const auto before = std::chrono::steady_clock::now();
          auto request = probe.echoRequest();
          request.setText("hello");
          return request.send().then([this, before](auto&&) -> kj::Promise<int> {
            micros.push_back(
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before)
                    .count());
            if (micros.size() == 5000) return 0;
            return next();
          });
        }
      };
      auto loop = kj::heap<Loop>(Loop{micros, probe});
      auto promise = loop->next();
      return promise.attach(kj::mv(loop));
    });
  });
  REQUIRE(inside.ok());
  std::sort(micros.begin(), micros.end());
  std::printf("echo on the loop: p50 %.0f us, p99 %.0f us\n", micros[2500], micros[4950]);
  const auto blob = pattern(4u << 20);
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < 16; ++i) REQUIRE(send(caller, blob, describe(*blob)).ok());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  std::printf("uploads of 4 MiB: %.2f GB/s, SHA-256 of both ends in it\n",
              16 * 4.194304 / 1000 / seconds);
}

}  // namespace leat
