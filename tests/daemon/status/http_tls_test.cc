// HTTP with a certificate, as a browser sees it.
#include "daemon/status/http_tls.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdio>

#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"
#include "transport/io/handshake.h"

namespace leat {
namespace {

// A certificate that signs itself, in two files.
struct Certificate {
  explicit Certificate(const std::string& name) { write(name); }
  void write(const std::string& name) {
    EVP_PKEY* const pair = EVP_EC_gen("P-256");
    X509* const made = X509_new();
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), 0);
    X509_gmtime_adj(X509_getm_notAfter(made), 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name.data()),
                               static_cast<int>(name.size()), -1, 0);
    X509_set_issuer_name(made, X509_get_subject_name(made));
    X509_set_pubkey(made, pair);
    X509_sign(made, pair, EVP_sha256());
    std::FILE* out = std::fopen(certificate.c_str(), "w");
    PEM_write_X509(out, made);
    std::fclose(out);
    out = std::fopen(key.c_str(), "w");
    PEM_write_PrivateKey(out, pair, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(out);
    REQUIRE(::chmod(key.c_str(), 0600) == 0);
    X509_free(made);
    EVP_PKEY_free(pair);
  }
  TemporaryDirectory folder;
  const std::string certificate = folder / "http.pem", key = folder / "http.key";
};

struct TlsHost {
  explicit TlsHost(const Certificate& of, std::chrono::milliseconds header_deadline = 5s)
      : host(options(of, header_deadline)) {}
  static HttpOptions options(const Certificate& of, std::chrono::milliseconds header_deadline) {
    HttpOptions options;
    auto tls = HttpTls::open(of.certificate, of.key, Logger(), 0ms);
    REQUIRE(tls.ok());
    options.tls = std::move(*tls);
    options.header_deadline = header_deadline;
    return options;
  }
  StatusHost host;
};

// One request over TLS. Returns the response, or "" if the handshake failed; `name` is the common
// name of the certificate that the server has shown.
std::string get_over_tls(const std::string& address, const std::string& path,
                         std::string* name = nullptr, int newest = TLS1_3_VERSION) {
  auto connected = connect_socket(address, std::chrono::steady_clock::now() + 10s);
  REQUIRE(connected.ok());
  const Descriptor socket = std::move(*connected);
  REQUIRE(::fcntl(socket.get(), F_SETFL, 0) == 0);
  const timeval patience{20, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(context, newest);
  SSL* const tls = SSL_new(context);
  SSL_set_fd(tls, socket.get());
  std::string reply;
  if (SSL_connect(tls) == 1) {
    X509* const shown = SSL_get1_peer_certificate(tls);
    char common[100] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(shown), NID_commonName, common, sizeof common);
    if (name) *name = common;
    X509_free(shown);
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    REQUIRE(SSL_write(tls, request.data(), static_cast<int>(request.size())) > 0);
    char bytes[4096];
    for (int n; (n = SSL_read(tls, bytes, sizeof bytes)) > 0;)
      reply.append(bytes, static_cast<size_t>(n));
    // The end is said, so that a page cannot be cut without notice.
    CHECK(SSL_get_shutdown(tls) == SSL_RECEIVED_SHUTDOWN);
  }
  SSL_free(tls);
  SSL_CTX_free(context);
  return reply;
}

TEST_CASE("a page comes over TLS 1.3 and 1.2, whole, and over nothing older") {
  const Certificate certificate("the-master");
  TlsHost scene(certificate);
  std::string name;
  for (const int newest : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    const std::string reply =
        get_over_tls(scene.host.server->address(), "/api/v1/jobs", &name, newest);
    CHECK(reply.starts_with("HTTP/1.1 200 "));
    CHECK(reply.size() > 1000);
    CHECK(name == "the-master");
  }
  CHECK(get_over_tls(scene.host.server->address(), "/", nullptr, TLS1_1_VERSION).empty());
}

TEST_CASE("a client in the clear gets nothing from a server with a certificate") {
  const Certificate certificate("the-master");
  TlsHost scene(certificate);
  HttpClient client(scene.host.server->address());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const HttpReply reply = client.reply();
  CHECK(reply.status == 0);
  CHECK_FALSE(get_over_tls(scene.host.server->address(), "/healthz").empty());
}

TEST_CASE("a client that never ends its handshake is let go") {
  const Certificate certificate("the-master");
  TlsHost scene(certificate, 200ms);
  HttpClient silent(scene.host.server->address());
  CHECK(silent.is_closed());
  CHECK(scene.host.server->counters().timed_out == 1);
}

TEST_CASE("a renewed certificate is used without a restart, and a damaged one is not") {
  Certificate certificate("old");
  TlsHost scene(certificate);
  std::string name;
  CHECK_FALSE(get_over_tls(scene.host.server->address(), "/healthz", &name).empty());
  CHECK(name == "old");
  certificate.write("a-new-one");
  CHECK_FALSE(get_over_tls(scene.host.server->address(), "/healthz", &name).empty());
  CHECK(name == "a-new-one");
  std::FILE* const out = std::fopen(certificate.certificate.c_str(), "w");
  std::fputs("nonsense", out);
  std::fclose(out);
  CHECK_FALSE(get_over_tls(scene.host.server->address(), "/healthz", &name).empty());
  CHECK(name == "a-new-one");
}

TEST_CASE("files that are no certificate and key are refused by name") {
  const Certificate one("one"), other("other");
  const auto why = [](const std::string& certificate, const std::string& key) {
    return HttpTls::open(certificate, key, Logger()).status().message();
  };
  CHECK_THAT(why(one.folder / "none", one.key), Catch::Contains("none': expected a certificate"));
  CHECK_THAT(why(one.certificate, one.folder / "none"), Catch::Contains("there is none"));
  CHECK_THAT(why(one.key, one.key), Catch::Contains("expected a certificate in PEM"));
  CHECK_THAT(why(one.certificate, other.key), Catch::Contains("expected the certificate's key"));
  REQUIRE(::chmod(one.key.c_str(), 0644) == 0);
  CHECK_THAT(why(one.certificate, one.key), Catch::Contains("only its owner"));
}

}  // namespace
}  // namespace leat
