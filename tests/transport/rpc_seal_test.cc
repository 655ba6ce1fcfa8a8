// TLS under the control plane, and attackers between its two ends.
#include <algorithm>
#include <array>
#include <future>
#include <thread>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/transport/relay.h"
#include "tests/transport/rpc_testing.h"

namespace leat {
namespace {

constexpr char kSealSecret[] = "a secret of the sealed cluster";
// The bytes of the handshake in the clear, each way.
constexpr size_t kOpenerBytes = kRpcHelloBytes + kRpcProofBytes;
constexpr size_t kAcceptorBytes = kRpcAnswerBytes + kRpcVerdictBytes;

RpcServerOptions sealed_server(Seal seal, const std::string& secret = kSealSecret) {
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.identity.secret = secret;
  options.identity.seal = seal;
  return options;
}

RpcClientOptions sealed_client(const std::string& address, Seal seal,
                               const std::string& secret = kSealSecret) {
  RpcClientOptions options;
  options.address = address;
  options.identity = test_identity();
  options.identity.secret = secret;
  options.identity.seal = seal;
  options.deadline = 30s;
  return options;
}

Result<std::unique_ptr<RpcClient>> connect_sealed(RpcLoop& loop, const std::string& address,
                                                  Seal seal) {
  return RpcClient::connect(loop, sealed_client(address, seal));
}

std::unique_ptr<RpcLoop> a_loop() { return std::move(RpcLoop::start().value()); }

}  // namespace

TEST_CASE("a connection is sealed as soon as one end requires it", "[cluster]") {
  struct Ends {
    Seal server, client;
    bool sealed;
  };
  for (const Ends& ends :
       {Ends{Seal::always, Seal::always, true}, Ends{Seal::always, Seal::beyond_loopback, true},
        Ends{Seal::beyond_loopback, Seal::always, true},
        Ends{Seal::beyond_loopback, Seal::beyond_loopback, false},
        Ends{Seal::never, Seal::beyond_loopback, false}, Ends{Seal::never, Seal::never, false}}) {
    INFO(static_cast<int>(ends.server) << " " << static_cast<int>(ends.client));
    const ProbeHost host(sealed_server(ends.server));
    const Relay relay(host.server->address());
    ProbeCaller caller(relay.address(), sealed_client(relay.address(), ends.client));
    CHECK(caller.client->peer().sealed == ends.sealed);
    const auto echoed = caller.echo("these words are for two alone");
    REQUIRE(echoed.ok());
    CHECK(*echoed == "these words are for two alone");
    CHECK(relay.has_seen("these words are for two alone") != ends.sealed);
  }
}

TEST_CASE("large messages and many calls pass a sealed connection", "[cluster]") {
  const ProbeHost host(sealed_server(Seal::always));
  ProbeCaller caller(host.server->address(),
                     sealed_client(host.server->address(), Seal::beyond_loopback));
  for (const size_t size : {size_t{0}, size_t{65'000}, size_t{66'000}, size_t{4u << 20}}) {
    const std::string text(size, 'x');
    const auto echoed = caller.echo(text);
    INFO(size << " " << echoed.status());
    REQUIRE(echoed.ok());
    CHECK(*echoed == text);
  }
  for (int i = 0; i < 200; ++i) REQUIRE(caller.echo(cat("call ", i)).ok());
}

TEST_CASE("an end that must not seal and one that must refuse each other by name", "[cluster]") {
  const auto loop = a_loop();
  {
    const ProbeHost host(sealed_server(Seal::never));
    const auto refused = connect_sealed(*loop, host.server->address(), Seal::always);
    CHECK(refused.status().code() == Code::failed_precondition);
    CHECK_THAT(refused.status().message(),
               Catch::Contains("expected also TLS") && Catch::Contains("insecure_plaintext"));
  }
  {
    const ProbeHost host(sealed_server(Seal::always));
    const auto refused = connect_sealed(*loop, host.server->address(), Seal::never);
    CHECK(refused.status().code() == Code::failed_precondition);
    CHECK_THAT(refused.status().message(), Catch::Contains("expected also TLS"));
  }
}

TEST_CASE("an attacker who takes TLS out of the hello is found out: no downgrade", "[cluster]") {
  const ProbeHost host(sealed_server(Seal::beyond_loopback));
  // The bits of the feature are in the fifth byte of each mask of the hello and of the answer.
  const auto strip = [](Relay::Way way, size_t before, std::vector<std::byte>& bytes) {
    if (before > 0 || bytes.size() < 24) return;
    static_cast<void>(way);
    bytes[8 + 4] = bytes[16 + 4] = std::byte{0};
  };
  const Relay relay(host.server->address(), strip);
  const auto loop = a_loop();
  const auto refused = connect_sealed(*loop, relay.address(), Seal::always);
  CHECK(refused.status().code() == Code::failed_precondition);
  CHECK(host.server->counts().accepted == 0);
}

TEST_CASE("a byte that is changed on its way ends the connection, and does nothing", "[cluster]") {
  for (const Relay::Way way : {Relay::Way::up, Relay::Way::down}) {
    // In the handshake of TLS, and in what follows it.
    for (const size_t behind : {size_t{60}, size_t{900}}) {
      INFO("way " << static_cast<int>(way) << ", " << behind << " bytes behind the hello");
      const ProbeHost host(sealed_server(Seal::always));
      const size_t clear = way == Relay::Way::up ? kOpenerBytes : kAcceptorBytes;
      const Relay relay(host.server->address(),
                        [&](Relay::Way w, size_t before, std::vector<std::byte>& bytes) {
                          const size_t at = clear + behind;
                          if (w == way && before <= at && at < before + bytes.size())
                            bytes[at - before] ^= std::byte{4};
                        });
      const auto loop = a_loop();
      const auto client = connect_sealed(*loop, relay.address(), Seal::always);
      CHECK(fails_within_echoes(client));
      // The server goes on with others.
      ProbeCaller other(host.server->address(),
                        sealed_client(host.server->address(), Seal::always));
      CHECK(other.echo("still here").ok());
    }
  }
}

TEST_CASE("a recorded connection that is played again is refused", "[cluster]") {
  const ProbeHost host(sealed_server(Seal::always));
  std::vector<std::byte> recorded;
  {
    const Relay relay(host.server->address());
    ProbeCaller caller(relay.address(), sealed_client(relay.address(), Seal::always));
    REQUIRE(caller.echo("once").ok());
    recorded = relay.seen(Relay::Way::up);
  }
  const auto before = host.server->counts();
  RawSocket socket(host.server->address());
  (void)socket.write(std::string(reinterpret_cast<const char*>(recorded.data()), recorded.size()));
  REQUIRE(socket.read_to_end().has_value());
  CHECK(host.server->counts().accepted == before.accepted);
}

TEST_CASE("what one end says is not taken as the other's: no reflection", "[cluster]") {
  const auto loop = a_loop();
  // A listener that returns every byte to its sender.
  auto listening = listen_socket("127.0.0.1:0");
  REQUIRE(listening.ok());
  std::thread mirror([&] {
    const Descriptor one([&] {
      (void)wait_ready(listening->socket.get(), POLLIN, std::chrono::steady_clock::now() + 30s,
                       "accept");
      return ::accept4(listening->socket.get(), nullptr, nullptr, SOCK_CLOEXEC);
    }());
    std::array<std::byte, 4096> bytes;
    while (true) {
      const ssize_t n = ::recv(one.get(), bytes.data(), bytes.size(), 0);
      if (n <= 0 || ::send(one.get(), bytes.data(), static_cast<size_t>(n), MSG_NOSIGNAL) != n)
        return;
    }
  });
  const auto client = connect_sealed(*loop, listening->address, Seal::always);
  CHECK_FALSE(client.ok());
  mirror.join();
}

TEST_CASE("a connection that is cut looks different from one that its peer has ended",
          "[cluster]") {
  for (const bool reset : {false, true}) {
    INFO((reset ? "reset" : "closed") << " by what is between the ends");
    const ProbeHost host(sealed_server(Seal::always));
    std::promise<std::string> lost;
    const auto loop = a_loop();
    std::unique_ptr<RpcClient> client;
    {
      Relay relay(host.server->address());
      if (reset) relay.reset_at_the_end();
      RpcClientOptions options = sealed_client(relay.address(), Seal::always);
      options.on_lost = [&](const Status& cause) { lost.set_value(cause.message()); };
      auto made = RpcClient::connect(*loop, options);
      REQUIRE(made.ok());
      client = std::move(*made);
      // The relay ends here, without a word of the server.
    }
    auto told = lost.get_future();
    REQUIRE(told.wait_for(30s) == std::future_status::ready);
    CHECK_THAT(told.get(), Catch::Contains("TLS: the connection was cut"));
  }
}

TEST_CASE("a peer that proves the secret and then does not speak TLS is let go", "[cluster]") {
  RpcServerOptions options = sealed_server(Seal::always);
  options.handshake_deadline = 300ms;
  const ProbeHost host(options);
  RpcIdentity identity = identity_over(sealed_client("", Seal::always).identity, true);
  for (const bool silent : {true, false}) {
    RawSocket socket(host.server->address());
    OpenerHandshake opener(identity, "there", random_nonce());
    REQUIRE(socket.write(std::string(opener.hello().begin(), opener.hello().end())));
    const std::string answered = socket.read(kRpcAnswerBytes);
    REQUIRE(answered.size() == kRpcAnswerBytes);
    RpcAnswer answer;
    std::copy(answered.begin(), answered.end(), answer.begin());
    const auto proof = opener.on_answer(answer);
    REQUIRE(proof.ok());
    REQUIRE(socket.write(std::string(proof->begin(), proof->end())));
    REQUIRE(socket.read(kRpcVerdictBytes).size() == kRpcVerdictBytes);
    // A message of Cap'n Proto in the clear, or nothing.
    if (!silent) (void)socket.write(header_of(0, 1) + std::string(8, '\0'));
    REQUIRE(socket.read_to_end().has_value());
  }
  CHECK(host.server->counts().accepted == 0);
}

}  // namespace leat
