// Certificates: how they are read, and TLS between two ends that show them.
#include "transport/seal/certificates.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/transport/test_certificates.h"
#include "transport/seal/tls_session.h"

namespace leat {
namespace {

using Catch::Contains;

constexpr char kMasterUri[] = "spiffe://test/master/m";
constexpr char kWorkerUri[] = "spiffe://test/worker/w1";
constexpr char kKeyWithPassphrase[] =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAg=\n"
    "-----END ENCRYPTED PRIVATE KEY-----\n";

std::string refusal(const CertificateTexts& texts) {
  const auto read = Certificates::read(texts);
  if (read.ok()) return "";
  CHECK(read.status().code() == Code::invalid_argument);
  return std::string(read.status().message());
}

// Two sessions and the way between them.
struct CertifiedEnds {
  CertifiedEnds(const CertificateTexts& client_texts, const CertificateTexts& server_texts)
      : client(std::move(
            TlsSession::create(TlsSession::Side::client, current(client_texts)->get()).value())),
        server(std::move(
            TlsSession::create(TlsSession::Side::server, current(server_texts)->get()).value())) {}

  static void carry(TlsSession& from, TlsSession& to) {
    auto output = from.take_output();
    std::span<const std::byte> bytes = output;
    while (!bytes.empty()) {
      const auto space = to.space();
      const size_t n = std::min(space.size(), bytes.size());
      if (n == 0) return;
      std::copy_n(bytes.begin(), n, space.begin());
      to.received(n);
      bytes = bytes.subspan(n);
    }
  }
  // The first error of the client and of the server.
  std::pair<Status, Status> shake_hands() {
    Status client_says, server_says;
    for (int flight = 0; flight < 4; ++flight) {
      if (client_says.ok()) client_says = client->shake_hands();
      carry(*client, *server);
      if (server_says.ok()) server_says = server->shake_hands();
      carry(*server, *client);
    }
    return {client_says, server_says};
  }

  std::unique_ptr<TlsSession> client, server;
};

// Has a context show a certificate.
void use(const CertificateTexts& texts, SSL_CTX* context) {
  BIO* const certificate = BIO_new_mem_buf(texts.certificate.data(), -1);
  BIO* const key = BIO_new_mem_buf(texts.key.data(), -1);
  X509* const own = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
  EVP_PKEY* const own_key = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
  REQUIRE(SSL_CTX_use_certificate(context, own) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(context, own_key) == 1);
  X509_free(own);
  EVP_PKEY_free(own_key);
  BIO_free(certificate);
  BIO_free(key);
}

}  // namespace

TEST_CASE("a file with everything is read, and has the name of its end") {
  const TestAuthority authority;
  const CertificateTexts issued = authority.issue_to(kWorkerUri);
  const std::string all = issued.key + issued.certificate + issued.authority;
  const auto read = Certificates::read({all, all, all, ""});
  INFO(read.status());
  REQUIRE(read.ok());
  CHECK((*read)->own().name == PeerName{"test", "worker", "w1"});
  CHECK(!(*read)->own().serial.empty());
  CHECK((*read)->own().expires > 0);
}

TEST_CASE("certificates that cannot be used are refused with the part that is wrong") {
  const TestAuthority authority, other("another authority");
  const CertificateTexts good = authority.issue_to(kWorkerUri);
  CHECK(refusal(good) == "");
  const auto with = [&](auto change) {
    CertificateTexts texts = good;
    change(texts);
    return refusal(texts);
  };
  CHECK_THAT(with([](auto& t) { t.certificate = ""; }), Contains("certificate: expected one"));
  CHECK_THAT(with([](auto& t) { t.certificate.resize(200); }),
             Contains("certificate: expected PEM"));
  CHECK_THAT(with([](auto& t) { t.key = ""; }), Contains("key: expected one in PEM, received 0"));
  CHECK_THAT(with([](auto& t) { t.key += t.key; }), Contains("received 2"));
  CHECK_THAT(with([](auto& t) { t.key = kKeyWithPassphrase; }), Contains("without a passphrase"));
  CHECK_THAT(with([&](auto& t) { t.key = other.issue_to(kWorkerUri).key; }),
             Contains("key: expected that of the certificate"));
  CHECK_THAT(with([](auto& t) { t.authority = t.certificate; }),
             Contains("authority: expected the certificate of an authority"));
  CHECK_THAT(with([&](auto& t) { t.authority = other.certificate(); }),
             Contains("authority: unable to get local issuer certificate"));
  CHECK_THAT(with([](auto& t) { t.revoked = "no list"; }), Contains("expected a list"));
  CHECK_THAT(with([&](auto& t) { t.revoked = other.revoke({}); }),
             Contains("revoked certificates: unable to get certificate CRL"));
  CHECK_THAT(with([&](auto& t) { t.revoked = authority.revoke({t.certificate}); }),
             Contains("certificate revoked"));
  CHECK(with([&](auto& t) {
          t.revoked = authority.revoke({authority.issue_to(kWorkerUri).certificate});
        }) == "");
  CHECK_THAT(refusal(authority.issue({.uri = kWorkerUri, .ends = std::chrono::seconds(-1)})),
             Contains("certificate has expired"));
  CHECK_THAT(refusal(authority.issue({.uri = kWorkerUri, .begins = std::chrono::hours(1)})),
             Contains("not yet valid"));
}

TEST_CASE("a certificate without the name of an end, or with two, is refused") {
  const TestAuthority authority;
  CHECK_THAT(refusal(authority.issue_to("")), Contains("expected one URI"));
  CHECK_THAT(refusal(authority.issue({.uri = "", .names = "DNS:worker-1"})),
             Contains("received 0"));
  CHECK_THAT(refusal(authority.issue({.uri = kWorkerUri, .names = cat("URI:", kMasterUri)})),
             Contains("received 2"));
  CHECK_THAT(refusal(authority.issue_to("https://example.org/worker")),
             Contains("expected spiffe://CLUSTER/ROLE/NAME"));
  CHECK(refusal(authority.issue({.uri = kWorkerUri, .names = "DNS:h,IP:10.0.0.1"})) == "");
}

TEST_CASE("a certificate of a client alone is none of a master") {
  const TestAuthority authority;
  CHECK_THAT(refusal(authority.issue({.uri = kMasterUri, .usage = "clientAuth"})),
             Contains("certificate purpose"));
  CHECK(refusal(authority.issue({.uri = kMasterUri, .usage = "serverAuth"})) == "");
  CHECK(refusal(authority.issue({.uri = kWorkerUri, .usage = "clientAuth"})) == "");
  CHECK_THAT(refusal(authority.issue({.uri = kWorkerUri, .usage = "serverAuth"})),
             Contains("certificate purpose"));
}

TEST_CASE("two ends with certificates of one authority know each other by name") {
  const TestAuthority authority;
  CertifiedEnds ends(authority.issue_to(kWorkerUri), authority.issue_to(kMasterUri));
  const auto [client, server] = ends.shake_hands();
  INFO(client << " " << server);
  REQUIRE((client.ok() && server.ok()));
  CHECK(ends.client->peer_certificate()->name.role == "master");
  const auto peer = ends.server->peer_certificate();
  REQUIRE(peer.ok());
  CHECK(uri_of(peer->name) == kWorkerUri);
  const std::string words = "words for two";
  REQUIRE(ends.client->write(std::as_bytes(std::span(words))).ok());
  CertifiedEnds::carry(*ends.client, *ends.server);
  std::array<std::byte, 64> got;
  CHECK(ends.server->read(got).value() == words.size());
}

TEST_CASE("an end whose certificate is of another authority, expired or revoked is refused") {
  const TestAuthority authority, other("another authority");
  const CertificateTexts master = authority.issue_to(kMasterUri);
  {
    // It trusts the master's authority, which does not trust its own.
    CertificateTexts stranger = other.issue_to(kWorkerUri);
    stranger.authority += authority.certificate();
    CertifiedEnds ends(stranger, master);
    const auto [client, server] = ends.shake_hands();
    CHECK_THAT(server.message(), Contains("the peer's certificate: unable to get local issuer"));
    std::array<std::byte, 64> got;
    CHECK_THAT(ends.client->read(got).status().message(), Contains("the peer refuses it"));
  }
  {
    CertificateTexts strange = other.issue_to(kMasterUri);
    strange.authority += authority.certificate();
    CertifiedEnds ends(authority.issue_to(kWorkerUri), strange);
    const auto [client, server] = ends.shake_hands();
    CHECK_THAT(client.message(), Contains("the peer's certificate: unable to get local issuer"));
    CHECK(!server.ok());
  }
  {
    const CertificateTexts worker = authority.issue_to(kWorkerUri);
    CertificateTexts informed = master;
    informed.revoked = authority.revoke({worker.certificate});
    CertifiedEnds ends(worker, informed);
    CHECK_THAT(ends.shake_hands().second.message(), Contains("certificate revoked"));
  }
  {
    const auto brief = authority.issue({.uri = kWorkerUri, .ends = std::chrono::seconds(1)});
    const auto read = Certificates::read(brief).value();
    REQUIRE(eventually([&] { return !Certificates::read(brief).ok(); }));
    CertifiedEnds ends(authority.issue_to(kWorkerUri), master);
    ends.client = std::move(TlsSession::create(TlsSession::Side::client, read).value());
    CHECK_THAT(ends.shake_hands().second.message(), Contains("certificate has expired"));
  }
}

// A client of OpenSSL alone that trusts the authority. Returns what the server says.
Status server_about(const TestAuthority& authority, bool shows_certificate, bool offers_protocol) {
  const auto server = current(authority.issue_to(kMasterUri));
  auto session = std::move(TlsSession::create(TlsSession::Side::server, server->get()).value());
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  if (shows_certificate) use(authority.issue_to(kWorkerUri), context);
  constexpr unsigned char kLeat[] = {4, 'l', 'e', 'a', 't'};
  if (offers_protocol) SSL_CTX_set_alpn_protos(context, kLeat, sizeof kLeat);
  SSL* const client = SSL_new(context);
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(client, in, out);
  SSL_set_connect_state(client);
  Status says;
  for (int flight = 0; flight < 4 && says.ok(); ++flight) {
    SSL_do_handshake(client);
    const auto space = session->space();
    const int n = BIO_read(out, space.data(), static_cast<int>(space.size()));
    if (n > 0) session->received(static_cast<size_t>(n));
    says = session->shake_hands();
    const auto answer = session->take_output();
    BIO_write(in, answer.data(), static_cast<int>(answer.size()));
  }
  if (says.ok())
    says = session->established() ? session->peer_certificate().status()
                                  : internal_error("no end of the handshake");
  SSL_free(client);
  SSL_CTX_free(context);
  return says;
}

TEST_CASE("a client of another kind is refused without a certificate, and without our protocol") {
  const TestAuthority authority;
  CHECK(server_about(authority, true, true).ok());
  CHECK_THAT(server_about(authority, false, true).message(),
             Contains("peer did not return a certificate"));
  CHECK_THAT(server_about(authority, true, false).message(), Contains("expected protocol 'leat'"));
}

TEST_CASE("an end without a certificate, or with a key in its place, is refused") {
  const TestAuthority authority;
  for (const bool key_at_server : {false, true}) {
    CertifiedEnds ends(authority.issue_to(kWorkerUri), authority.issue_to(kMasterUri));
    auto& replaced = key_at_server ? ends.server : ends.client;
    replaced = std::move(
        TlsSession::create(key_at_server ? TlsSession::Side::server : TlsSession::Side::client,
                           TlsKey{1, 2, 3})
            .value());
    const auto [client, server] = ends.shake_hands();
    CHECK((!client.ok() || !server.ok()));
    CHECK(!(ends.client->established() && ends.server->established()));
  }
}

TEST_CASE("a certificate that was good is checked once more against new lists") {
  const TestAuthority authority, next;
  const CertificateTexts worker = authority.issue_to(kWorkerUri);
  const auto peer = Certificates::read(worker).value()->own();
  CertificateTexts master = authority.issue_to(kMasterUri);
  CHECK(Certificates::read(master).value()->check(peer).ok());
  master.revoked = authority.revoke({worker.certificate});
  CHECK_THAT(Certificates::read(master).value()->check(peer).message(),
             Contains("certificate revoked"));
  // A new authority beside the old one, and then alone.
  CertificateTexts rotated = next.issue_to(kMasterUri);
  rotated.authority += authority.certificate();
  CHECK(Certificates::read(rotated).value()->check(peer).ok());
  CHECK(!Certificates::read(next.issue_to(kMasterUri)).value()->check(peer).ok());
}

}  // namespace leat
