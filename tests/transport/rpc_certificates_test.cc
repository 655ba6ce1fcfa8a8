// Certificates on the control plane: the rights that they give, and attackers.
#include <algorithm>
#include <atomic>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/transport/relay.h"
#include "tests/transport/rpc_testing.h"
#include "tests/transport/test_certificates.h"

namespace leat {
namespace {

using Catch::Contains;

std::string uri_of(std::string_view role, std::string_view name) {
  return cat("spiffe://test/", role, "/", name);
}

// A master with a certificate and a secret of its own.
struct CertifiedHost {
  explicit CertifiedHost(const CertificateTexts& texts)
      : certificates(std::make_shared<CurrentCertificates>(Certificates::read(texts).value())),
        host(options_of(*this)) {}

  static RpcServerOptions options_of(CertifiedHost& self) {
    RpcServerOptions options;
    options.identity = test_identity(RpcRole::master);
    options.identity.secret = "the master's own secret, which nobody else knows";
    options.identity.certificates = self.certificates;
    options.on_refused = [&self](const std::string&, const Status& why) {
      const std::lock_guard lock(self.mutex);
      self.refused += cat(why.message(), "\n");
    };
    return options;
  }
  std::string refusals() {
    const std::lock_guard lock(mutex);
    return refused;
  }
  const std::string& address() const { return host.server->address(); }

  std::mutex mutex;
  std::string refused;
  std::shared_ptr<CurrentCertificates> certificates;
  ProbeHost host;
};

RpcClientOptions certified_client(const std::string& address, const CertificateTexts& texts,
                                  RpcRole role = RpcRole::client) {
  RpcClientOptions options;
  options.address = address;
  options.identity = test_identity(role);
  options.identity.certificates = current(texts);
  options.deadline = 30s;
  return options;
}

Status connect_with(const std::string& address, const CertificateTexts& texts,
                    RpcRole role = RpcRole::client) {
  const auto loop = std::move(RpcLoop::start().value());
  return RpcClient::connect(*loop, certified_client(address, texts, role)).status();
}

}  // namespace

TEST_CASE("an end with a certificate is let in, sealed also over loopback", "[cluster]") {
  const TestAuthority authority;
  const CertifiedHost host(authority.issue_to(uri_of("master", "m")));
  const Relay relay(host.address());
  ProbeCaller caller(
      relay.address(),
      certified_client(relay.address(), authority.issue_to(uri_of("viewer", "eve"))));
  CHECK(caller.client->peer().sealed);
  CHECK(caller.client->peer().authenticated);
  CHECK(caller.echo("these words are for two alone").value() == "these words are for two alone");
  CHECK(!relay.has_seen("these words are for two alone"));
  CHECK(caller.echo(std::string(2u << 20, 'x')).value().size() == 2u << 20);
}

TEST_CASE("a master that seals all connections takes certificates, too", "[cluster]") {
  // As between two machines, where the hello in the clear would have to agree on TLS.
  const TestAuthority authority;
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.identity.secret = "the master's own secret, which nobody else knows";
  options.identity.seal = Seal::always;
  options.identity.certificates = current(authority.issue_to(uri_of("master", "m")));
  const ProbeHost host(options);
  RpcClientOptions client =
      certified_client(host.server->address(), authority.issue_to(uri_of("viewer", "eve")));
  client.identity.seal = Seal::always;
  ProbeCaller caller(host.server->address(), client);
  CHECK(caller.echo("sealed once").value() == "sealed once");
}

TEST_CASE("a refused end that stays does not hide the reason", "[cluster]") {
  const TestAuthority authority, other("another authority");
  CertifiedHost host(authority.issue_to(uri_of("master", "m")));
  CertificateTexts forged = other.issue_to(uri_of("admin", "mallory"));
  forged.authority += authority.certificate();
  auto session =
      std::move(TlsSession::create(TlsSession::Side::client, current(forged)->get()).value());
  RawSocket socket(host.address());
  REQUIRE(session->shake_hands().ok());
  const auto send = [&] {
    const auto output = session->take_output();
    return socket.write(std::string(reinterpret_cast<const char*>(output.data()), output.size()));
  };
  REQUIRE(send());
  while (!session->established()) {
    const std::string byte = socket.read(1);
    REQUIRE(byte.size() == 1);
    session->space()[0] = static_cast<std::byte>(byte[0]);
    session->received(1);
    REQUIRE(session->shake_hands().ok());
  }
  REQUIRE(send());
  // This end keeps its socket open. The server waits for half a second, and says why it has gone.
  CHECK(eventually(
      [&] { return host.refusals().find("unable to get local issuer") != std::string::npos; }));
}

TEST_CASE("the certificate's role decides what its end may be", "[cluster]") {
  const TestAuthority authority;
  const CertifiedHost host(authority.issue_to(uri_of("master", "m")));
  const auto tried = [&](std::string_view role, RpcRole as) {
    return connect_with(host.address(), authority.issue_to(uri_of(role, "x")), as);
  };
  for (const char* person : {"viewer", "submitter", "operator", "admin"}) {
    CAPTURE(person);
    CHECK(tried(person, RpcRole::client).ok());
    CHECK_THAT(tried(person, RpcRole::worker).message(), Contains("role"));
  }
  CHECK(tried("worker", RpcRole::worker).ok());
  CHECK_THAT(tried("worker", RpcRole::client).message(), Contains("role"));
  for (const char* none : {"master", "member", "runner", "root"}) {
    CAPTURE(none);
    CHECK_THAT(tried(none, RpcRole::client).message(), Contains("role"));
    CHECK_THAT(tried(none, RpcRole::worker).message(), Contains("role"));
  }
}

TEST_CASE("a worker's certificate is not taken for a master's", "[cluster]") {
  const TestAuthority authority;
  for (const char* wrong : {"spiffe://test/worker/w", "spiffe://other/master/m"}) {
    const CertifiedHost host(authority.issue_to(wrong));
    const Status refused = connect_with(host.address(), authority.issue_to(uri_of("admin", "a")));
    CHECK(refused.code() == Code::failed_precondition);
    CHECK_THAT(refused.message(),
               Contains("expected that of a master of cluster 'test'") && Contains(wrong));
  }
}

TEST_CASE("a certificate of another cluster or authority is refused, and both ends say why",
          "[cluster]") {
  const TestAuthority authority, other("another authority");
  CertifiedHost host(authority.issue_to(uri_of("master", "m")));
  const Status elsewhere =
      connect_with(host.address(), authority.issue_to("spiffe://other/admin/mallory"));
  CHECK_THAT(elsewhere.message(), Contains("cluster"));
  // The server tells its refusal after the other end has learned it.
  const auto tells = [&](const char* words) {
    return eventually([&] { return host.refusals().find(words) != std::string::npos; });
  };
  CHECK(tells("spiffe://other/admin/mallory"));
  CertificateTexts forged = other.issue_to(uri_of("admin", "mallory"));
  forged.authority += authority.certificate();
  const Status refused = connect_with(host.address(), forged);
  CHECK(refused.code() == Code::failed_precondition);
  CHECK_THAT(refused.message(), Contains("the peer refuses it: unknown CA"));
  CHECK(tells("the peer's certificate: unable to get local issuer"));
  CHECK(host.host.server->counts().accepted == 0);
}

TEST_CASE("a certificate that is revoked or no longer trusted ends its connections", "[cluster]") {
  const TestAuthority authority, next;
  CertificateTexts master = authority.issue_to(uri_of("master", "m"));
  CertifiedHost host(master);
  const CertificateTexts alice = authority.issue_to(uri_of("admin", "alice"));
  ProbeCaller first(host.address(), certified_client(host.address(), alice));
  ProbeCaller second(host.address(),
                     certified_client(host.address(), authority.issue_to(uri_of("admin", "bob"))));
  master.revoked = authority.revoke({alice.certificate});
  host.certificates->set(Certificates::read(master).value());
  CHECK(eventually([&] { return !first.echo("still here").ok(); }));
  CHECK(second.echo("still here").ok());
  CHECK_THAT(host.refusals(), Contains("admin 'alice'"));
  const Status again = connect_with(host.address(), alice);
  CHECK_THAT(again.message(), Contains("the peer refuses it: certificate revoked"));
  // The authority is replaced.
  host.certificates->set(Certificates::read(next.issue_to(uri_of("master", "m"))).value());
  CHECK(eventually([&] { return !second.echo("still here").ok(); }));
}

TEST_CASE("the connection of a certificate ends with the certificate's time", "[cluster]") {
  const TestAuthority authority;
  CertifiedHost host(authority.issue_to(uri_of("master", "m")));
  const CertificateTexts brief =
      authority.issue({.uri = uri_of("admin", "alice"), .ends = std::chrono::seconds(3)});
  ProbeCaller caller(host.address(), certified_client(host.address(), brief));
  CHECK(eventually([&] { return !caller.echo("still here").ok(); }));
  CHECK_THAT(host.refusals(), Contains("admin 'alice'"));
}

TEST_CASE("keys of the master's secret go on beside certificates", "[cluster]") {
  const TestAuthority authority;
  const CertifiedHost host(authority.issue_to(uri_of("master", "m")));
  RpcClientOptions options;
  options.identity = test_identity();
  options.identity.secret = "the master's own secret, which nobody else knows";
  ProbeCaller caller(host.address(), options);
  CHECK(caller.echo("a token's way").ok());
  // And nothing goes on without either.
  const auto loop = std::move(RpcLoop::start().value());
  options.address = host.address();
  options.identity.secret = "";
  CHECK_THAT(RpcClient::connect(*loop, options).status().message(), Contains("authentication"));
}

TEST_CASE("an end with a certificate turns away from a master without", "[cluster]") {
  const TestAuthority authority;
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.identity.secret = "a secret that is long enough";
  const ProbeHost host(options);
  const Status refused =
      connect_with(host.server->address(), authority.issue_to(uri_of("admin", "a")));
  CHECK(refused.code() == Code::failed_precondition);
  CHECK_THAT(refused.message(), Contains("the peer refuses it: handshake failure"));
}

TEST_CASE("a man in the middle changes no byte of a connection with certificates", "[cluster]") {
  const TestAuthority authority;
  const CertifiedHost host(authority.issue_to(uri_of("master", "m")));
  for (const Relay::Way way : {Relay::Way::up, Relay::Way::down}) {
    // In the hello of TLS, in the certificates, and in the calls behind them.
    for (const size_t at : {size_t{20}, size_t{100}, size_t{400}, size_t{1'600}}) {
      INFO("way " << static_cast<int>(way) << ", byte " << at);
      const Relay relay(host.address(),
                        [&](Relay::Way w, size_t before, std::vector<std::byte>& bytes) {
                          if (w == way && before <= at && at < before + bytes.size())
                            bytes[at - before] ^= std::byte{4};
                        });
      const auto loop = std::move(RpcLoop::start().value());
      const auto client = RpcClient::connect(
          *loop, certified_client(relay.address(), authority.issue_to(uri_of("admin", "a"))));
      CHECK(fails_within_echoes(client));
    }
  }
}

TEST_CASE("half a handshake of TLS is let go at its deadline", "[cluster]") {
  const TestAuthority authority;
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.identity.secret = "the master's own secret, which nobody else knows";
  options.identity.certificates = current(authority.issue_to(uri_of("master", "m")));
  options.handshake_deadline = 300ms;
  const ProbeHost host(options);
  RawSocket socket(host.server->address());
  std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  hello.resize(120, 'x');
  CHECK(socket.write(hello));
  CHECK(socket.read_to_end().has_value());
  RawSocket garbage(host.server->address());
  CHECK(garbage.write(std::string("\x16\x03\x01") + std::string(2000, '\xff')));
  CHECK(garbage.read_to_end().has_value());
  CHECK(eventually([&] { return host.server->counts().half_open_ended == 1; }));
  CHECK(host.server->counts().accepted == 0);
}

}  // namespace leat
