// The TLS under both planes: two sessions whose bytes the test carries, as a network would, or as
// an attacker on it would.
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "tests/catch.h"
#include "transport/io/wire.h"
#include "transport/seal/tls_session.h"

using namespace leat;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::byte>;

TlsKey tls_key(uint8_t seed = 7) {
  TlsKey key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(seed + i);
  return key;
}

Bytes bytes_of(std::string_view text) {
  const auto span = std::as_bytes(std::span(text));
  return Bytes(span.begin(), span.end());
}

std::unique_ptr<TlsSession> session(TlsSession::Side side, const TlsKey& key = tls_key(),
                                    uint64_t bytes_of_a_key = TlsSession::kBytesOfAKey) {
  auto made = TlsSession::create(side, key, bytes_of_a_key);
  REQUIRE(made.ok());
  return std::move(*made);
}

// Puts bytes into a session, and takes them as far as they go. Returns the first error.
Status give(TlsSession& to, std::span<const std::byte> bytes, Bytes* plaintext = nullptr) {
  while (true) {
    const auto space = to.space();
    const size_t n = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), n);
    to.received(n);
    bytes = bytes.subspan(n);
    LEAT_RETURN_IF_ERROR(to.shake_hands());
    while (to.established()) {
      std::array<std::byte, 5000> some;
      const auto got = to.read(some);
      LEAT_RETURN_IF_ERROR(got.status());
      if (*got == 0) break;
      if (plaintext) plaintext->insert(plaintext->end(), some.begin(), some.begin() + *got);
    }
    if (bytes.empty()) return {};
  }
}

struct Ends {
  explicit Ends(const TlsKey& client_key = tls_key(), const TlsKey& server_key = tls_key(),
                uint64_t bytes_of_a_key = TlsSession::kBytesOfAKey)
      : client(session(TlsSession::Side::client, client_key, bytes_of_a_key)),
        server(session(TlsSession::Side::server, server_key, bytes_of_a_key)) {}

  // Carries the handshake to its end. Returns the first error of the client, or of the server.
  Status shake_hands() {
    LEAT_RETURN_IF_ERROR(client->shake_hands());
    for (int flight = 0; flight < 4; ++flight) {
      const Bytes up = client->take_output();
      const Status server_says = give(*server, up);
      const Bytes down = server->take_output();
      LEAT_RETURN_IF_ERROR(give(*client, down));
      LEAT_RETURN_IF_ERROR(server_says);
      if (client->established() && server->established() && client->output().empty()) return {};
    }
    return internal_error("no end of the handshake");
  }
  // The records in which the client says a text.
  Bytes said(std::string_view text) {
    REQUIRE(client->write(bytes_of(text)).ok());
    return client->take_output();
  }

  std::unique_ptr<TlsSession> client, server;
};

}  // namespace

TEST_CASE("two ends with one key exchange what they say, encrypted", "[cluster]") {
  Ends ends;
  REQUIRE(ends.shake_hands().ok());
  std::mt19937 random(1);
  for (const size_t size :
       {size_t{1}, size_t{100}, size_t{16'384}, size_t{16'385}, size_t{1'000'000}}) {
    Bytes sent(size);
    for (std::byte& byte : sent) byte = static_cast<std::byte>(random());
    for (TlsSession* from : {ends.client.get(), ends.server.get()}) {
      TlsSession& to = from == ends.client.get() ? *ends.server : *ends.client;
      REQUIRE(from->write(sent).ok());
      const Bytes records = from->take_output();
      CHECK(records.size() > size);
      if (size >= 100) {
        CHECK(std::search(records.begin(), records.end(), sent.begin(), sent.begin() + 16) ==
              records.end());
      }
      Bytes got;
      REQUIRE(give(to, records, &got).ok());
      CHECK(got == sent);
    }
  }
  // The end is part of what is said.
  ends.client->say_end();
  CHECK_FALSE(ends.server->at_end());
  REQUIRE(give(*ends.server, ends.client->take_output()).ok());
  CHECK(ends.server->at_end());
}

TEST_CASE("each connection has keys of its own", "[cluster]") {
  Ends one, two;
  REQUIRE(one.shake_hands().ok());
  REQUIRE(two.shake_hands().ok());
  CHECK(one.said("the same words") != two.said("the same words"));
  // Recorded bytes of one connection mean nothing on another: a replay.
  CHECK_FALSE(give(*two.server, one.said("cancel the job")).ok());
}

TEST_CASE("ends whose keys differ never meet", "[cluster]") {
  Ends ends(tls_key(1), tls_key(2));
  const Status status = ends.shake_hands();
  CHECK(status.code() == Code::failed_precondition);
  CHECK_THAT(status.message(), Catch::StartsWith("TLS: handshake: "));
  CHECK_FALSE(ends.client->established());
  CHECK_FALSE(ends.server->established());
}

TEST_CASE("records that were changed, repeated, left out, moved or sent back are refused",
          "[cluster]") {
  Ends ends;
  REQUIRE(ends.shake_hands().ok());
  const Bytes first = ends.said("first"), second = ends.said("second");
  Bytes got;
  SECTION("changed") {
    for (size_t at = 0; at < first.size(); ++at) {
      INFO("byte " << at);
      Ends fresh;
      REQUIRE(fresh.shake_hands().ok());
      Bytes changed = fresh.said("first");
      changed[at] ^= std::byte{1};
      // A length that grew makes the record wait for more, and then it is wrong.
      Status status = give(*fresh.server, changed, &got);
      if (status.ok()) status = give(*fresh.server, Bytes(40'000), &got);
      CHECK_FALSE(status.ok());
      CHECK(got.empty());
    }
  }
  SECTION("repeated") {
    REQUIRE(give(*ends.server, first, &got).ok());
    CHECK_FALSE(give(*ends.server, first, &got).ok());
    CHECK(got == bytes_of("first"));
  }
  SECTION("left out") {
    CHECK_FALSE(give(*ends.server, second, &got).ok());
    CHECK(got.empty());
  }
  SECTION("sent back to its author: a reflection") {
    CHECK_FALSE(give(*ends.client, first, &got).ok());
    CHECK(got.empty());
  }
  SECTION("cut in the middle") {
    REQUIRE(give(*ends.server, std::span(first).first(first.size() - 1), &got).ok());
    CHECK(got.empty());
    CHECK_FALSE(ends.server->at_end());
  }
}

TEST_CASE("the handshake is refused if any byte of it was changed", "[cluster]") {
  // The flights: the client's hello, the server's answer, the client's end.
  const auto flights = [](const std::function<void(int, Bytes&)>& attack) -> Status {
    Ends ends;
    REQUIRE(ends.client->shake_hands().ok());
    Bytes up = ends.client->take_output();
    attack(0, up);
    LEAT_RETURN_IF_ERROR(give(*ends.server, up));
    Bytes down = ends.server->take_output();
    attack(1, down);
    LEAT_RETURN_IF_ERROR(give(*ends.client, down));
    if (!ends.client->established()) return failed_precondition("it waits for more");
    up = ends.client->take_output();
    attack(2, up);
    LEAT_RETURN_IF_ERROR(give(*ends.server, up));
    return ends.server->established() ? Status() : failed_precondition("it waits for more");
  };
  size_t sizes[3] = {};
  REQUIRE(flights([&](int flight, Bytes& bytes) { sizes[flight] = bytes.size(); }).ok());
  for (int flight = 0; flight < 3; ++flight) {
    // Not the bytes 1 and 2: the version in a record's header is for old middle boxes alone.
    for (size_t at = 0; at < sizes[flight]; at += 3) {
      const Status status = flights([&](int f, Bytes& bytes) {
        if (f == flight) bytes[at] ^= std::byte{0x20};
      });
      INFO("flight " << flight << " byte " << at);
      CHECK_FALSE(status.ok());
    }
  }
}

// A peer that speaks TLS in another way than this build does.
namespace {

struct Foreign {
  explicit Foreign(const SSL_METHOD* method) : context(SSL_CTX_new(method)) {}
  ~Foreign() {
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
  void open() {
    ssl = SSL_new(context);
    in = BIO_new(BIO_s_mem());
    out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
  }
  Bytes said() {
    Bytes bytes(static_cast<size_t>(BIO_pending(out)));
    if (!bytes.empty()) BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  SSL_CTX* context;
  SSL* ssl = nullptr;
  BIO *in = nullptr, *out = nullptr;
};

}  // namespace

TEST_CASE("a client that offers an older TLS is refused: no downgrade", "[cluster]") {
  Foreign client(TLS_client_method());
  SSL_CTX_set_max_proto_version(client.context, TLS1_2_VERSION);
  client.open();
  SSL_set_connect_state(client.ssl);
  SSL_do_handshake(client.ssl);
  const Bytes hello = client.said();
  REQUIRE_FALSE(hello.empty());
  const auto server = session(TlsSession::Side::server);
  const Status status = give(*server, hello);
  CHECK(status.code() == Code::failed_precondition);
  CHECK_THAT(status.message(), Catch::Contains("protocol"));
}

TEST_CASE("a server that shows a certificate in place of the key is refused", "[cluster]") {
  Foreign server(TLS_server_method());
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_pubkey(certificate, key);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_sign(certificate, key, EVP_sha256());
  REQUIRE(SSL_CTX_use_certificate(server.context, certificate) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(server.context, key) == 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
  server.open();
  SSL_set_accept_state(server.ssl);
  const auto client = session(TlsSession::Side::client);
  REQUIRE(client->shake_hands().ok());
  const Bytes hello = client->take_output();
  BIO_write(server.in, hello.data(), static_cast<int>(hello.size()));
  SSL_do_handshake(server.ssl);
  const Bytes answer = server.said();
  REQUIRE(answer.size() > 300);
  CHECK(give(*client, answer).code() == Code::failed_precondition);
  CHECK_FALSE(client->established());
}

TEST_CASE("bytes of any other protocol end the session, and nothing else", "[cluster]") {
  std::mt19937 random(3);
  for (const auto side : {TlsSession::Side::client, TlsSession::Side::server}) {
    for (const std::string_view text : {"GET / HTTP/1.1\r\n\r\n", "LEAT", "\x16\x03\x01\xff\xff"}) {
      const auto one = session(side);
      REQUIRE(one->shake_hands().ok());
      Bytes bytes = bytes_of(text);
      bytes.resize(70'000);
      CHECK_FALSE(give(*one, bytes).ok());
    }
    for (int round = 0; round < 200; ++round) {
      const auto one = session(side);
      REQUIRE(one->shake_hands().ok());
      Bytes bytes(random() % 3000);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      if (!bytes.empty()) bytes[0] = std::byte{22};
      static_cast<void>(give(*one, bytes).ok());
      CHECK_FALSE(one->established());
    }
  }
}

TEST_CASE("keys change on the way, and no byte is lost", "[cluster]") {
  Ends ends(tls_key(), tls_key(), 100'000);
  REQUIRE(ends.shake_hands().ok());
  for (int i = 0; i < 40; ++i) {
    const Bytes up(30'000, static_cast<std::byte>(i)),
        down(20'000, static_cast<std::byte>(100 + i));
    Bytes got;
    REQUIRE(ends.client->write(up).ok());
    REQUIRE(give(*ends.server, ends.client->take_output(), &got).ok());
    CHECK(got == up);
    got.clear();
    REQUIRE(ends.server->write(down).ok());
    REQUIRE(give(*ends.client, ends.server->take_output(), &got).ok());
    CHECK(got == down);
  }
}

TEST_CASE("a wire with TLS carries bytes both ways at once over a slow socket", "[cluster]") {
  auto sockets = socket_pair();
  REQUIRE(sockets.ok());
  const int small = 5000;
  for (const int fd : {sockets->first.get(), sockets->second.get()})
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  Wire a(std::move(sockets->first)), b(std::move(sockets->second));
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  auto other = std::async(std::launch::async, [&] {
    return b.seal(TlsSession::Side::server, tls_key(), deadline, "a");
  });
  REQUIRE(a.seal(TlsSession::Side::client, tls_key(), deadline, "b").ok());
  REQUIRE(other.get().ok());
  Bytes sent(3'000'000);
  std::mt19937 random(5);
  for (std::byte& byte : sent) byte = static_cast<std::byte>(random());

  const auto send = [&](Wire& wire) {
    for (size_t done = 0; done < sent.size();) {
      // Two parts, as the header and the bytes of a frame.
      const size_t left = sent.size() - done, head = std::min<size_t>(left, 40);
      const iovec parts[2] = {{sent.data() + done, head}, {sent.data() + done + head, left - head}};
      const ssize_t n = wire.send(parts);
      if (n > 0) {
        done += static_cast<size_t>(n);
      } else if (!wait_ready(wire.get(), POLLOUT, deadline, "send").ok()) {
        return false;
      }
    }
    return true;
  };
  const auto receive = [&](Wire& wire) {
    Bytes got(sent.size());
    for (size_t have = 0; have < got.size();) {
      const iovec part{got.data() + have, std::min<size_t>(got.size() - have, 70'001)};
      const ssize_t n = wire.receive({&part, 1});
      if (n > 0) {
        have += static_cast<size_t>(n);
      } else if (n == 0 || !wait_ready(wire.get(), POLLIN, deadline, "receive").ok()) {
        return false;
      }
    }
    return got == sent;
  };
  auto from_a = std::async(std::launch::async, send, std::ref(a));
  auto from_b = std::async(std::launch::async, send, std::ref(b));
  auto at_a = std::async(std::launch::async, receive, std::ref(a));
  CHECK(receive(b));
  CHECK(at_a.get());
  CHECK(from_a.get());
  CHECK(from_b.get());
}
