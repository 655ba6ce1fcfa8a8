#include "tests/catch.h"
#include "transport/rpc/admission.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/socket.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

RpcIdentity identity() {
  return {.protocol_version = 4,
          .features = 7,
          .required_features = 1,
          .role = RpcRole::worker,
          .cluster = "blue",
          .secret = "sixteen bytes ok"};
}

// Returns the peer that the opener sees, or the error of the end that refuses.
Result<RpcPeer> shake(const RpcIdentity& opener, const RpcIdentity& acceptor) {
  OpenerHandshake from(opener, "there:1", random_nonce());
  AcceptorHandshake to(acceptor, random_nonce());
  const auto answer = to.on_hello(from.hello());
  REQUIRE(answer.has_value());
  LEAT_ASSIGN_OR_RETURN(const Proof proof, from.on_answer(*answer));
  return from.on_verdict(to.verdict(to.on_proof(proof)));
}

}  // namespace

TEST_CASE("equals with one secret authenticate each other") {
  const auto peer = shake(identity(), identity());
  REQUIRE(peer.ok());
  CHECK(peer->authenticated);
  CHECK(peer->features == 7);
}

TEST_CASE("the acceptor learns role and features of the opener") {
  const RpcIdentity me = identity();
  OpenerHandshake from(me, "there:1", random_nonce());
  AcceptorHandshake to(me, random_nonce());
  REQUIRE(to.on_hello(from.hello()).has_value());
  CHECK(to.peer().role == RpcRole::worker);
  CHECK(to.peer().features == 7);
}

TEST_CASE("without a secret nobody is authenticated and everybody is let in") {
  RpcIdentity open = identity();
  open.secret.clear();
  const auto peer = shake(open, open);
  REQUIRE(peer.ok());
  CHECK_FALSE(peer->authenticated);
}

TEST_CASE("a refusal names the field that differs") {
  RpcIdentity other = identity();
  std::string named;
  SECTION("version") {
    other.protocol_version = 5;
    named = "protocol version of there:1: expected 5, received 4";
  }
  SECTION("features that the acceptor needs") {
    other.features = 2;
    named = "features of this end: there:1 expected also 0x1, this end has 0x2";
  }
  SECTION("features that the opener needs") {
    other.required_features = 0x11;
    named = "features of there:1: expected also 0x10, it has 0x7";
  }
  SECTION("cluster") {
    other.cluster = "green";
    named = "there:1 refused the hello: it does not belong to cluster 'green'";
  }
  SECTION("secret") {
    other.secret = "another secret that is wrong";
    named = "there:1 refused the hello: authentication failed, the secrets differ";
  }
  SECTION("no secret") {
    other.secret.clear();
    named = "there:1 refused the hello: authentication failed, this end has no secret";
  }
  const auto peer = shake(other, identity());
  CHECK(peer.status().code() == Code::failed_precondition);
  CHECK(peer.status().message() == named);
}

TEST_CASE("an opener with a secret turns away from an acceptor without") {
  const RpcIdentity me = identity();
  RpcIdentity impostor = identity();
  impostor.secret.clear();
  OpenerHandshake from(me, "there:1", random_nonce());
  AcceptorHandshake to(impostor, random_nonce());
  const auto answer = to.on_hello(from.hello());
  REQUIRE(from.on_answer(*answer).ok());
  const auto peer = from.on_verdict(to.verdict(Refusal::none));  // for any proof
  CHECK(peer.status().message() == "there:1 does not know the secret of cluster 'blue'");
}

TEST_CASE("a proof is of no use to another handshake") {
  const RpcIdentity me = identity();
  OpenerHandshake from(me, "there:1", random_nonce());
  AcceptorHandshake first(me, random_nonce()), second(me, random_nonce());
  const auto proof = from.on_answer(*first.on_hello(from.hello()));
  REQUIRE(proof.ok());
  REQUIRE(second.on_hello(from.hello()).has_value());
  CHECK(first.on_proof(*proof) == Refusal::none);
  CHECK(second.on_proof(*proof) == Refusal::authentication);
}

TEST_CASE("a hello that was changed on its way is not authentic") {
  const RpcIdentity me = identity();
  OpenerHandshake from(me, "there:1", random_nonce());
  AcceptorHandshake to(me, random_nonce());
  Hello changed = from.hello();
  changed[6] = static_cast<uint8_t>(RpcRole::master);  // the role
  const auto proof = from.on_answer(*to.on_hello(changed));
  CHECK(to.on_proof(*proof) == Refusal::authentication);
}

TEST_CASE("bytes that are no hello get no answer") {
  const RpcIdentity me = identity();
  AcceptorHandshake to(me, random_nonce());
  Hello noise{};
  noise.fill(0xff);
  CHECK_FALSE(to.on_hello(noise).has_value());
}

TEST_CASE("an answer of another protocol is no answer, and no verdict") {
  const RpcIdentity me = identity();
  OpenerHandshake from(me, "there:1", random_nonce());
  CHECK(from.on_answer({}).status().message() ==
        "there:1 is no end of this protocol: expected 'LEAT' at the start of its answer");
  AcceptorHandshake to(me, random_nonce());
  const auto answer = to.on_hello(from.hello());
  REQUIRE(answer.has_value());
  REQUIRE(from.on_answer(*answer).ok());
  CHECK(from.on_verdict({}).status().message() ==
        "there:1: expected 'LEAT' at the start of its verdict");
}

TEST_CASE("an identity that cannot be sent is refused") {
  RpcIdentity wrong = identity();
  SECTION("cluster too long") { wrong.cluster = std::string(33, 'x'); }
  SECTION("zero in the cluster") { wrong.cluster = std::string("a\0b", 3); }
  SECTION("secret too short") { wrong.secret = "short"; }
  CHECK(check_identity(wrong).code() == Code::invalid_argument);
  CHECK(check_identity(identity()).ok());
}

TEST_CASE("an address has so many connections a second, and a burst before") {
  ConnectionRate rate(10, 3, 2);
  const ConnectionRate::Time start{};
  for (int i = 0; i < 3; ++i) CHECK(rate.admit("a", start));
  CHECK_FALSE(rate.admit("a", start));
  CHECK(rate.admit("b", start));
  CHECK(rate.admit("a", start + 100ms));
  CHECK_FALSE(rate.admit("a", start + 100ms));
  CHECK(rate.admit("a", start + 10s));
}

TEST_CASE("addresses beyond those remembered share one bucket") {
  ConnectionRate rate(10, 3, 2);
  const ConnectionRate::Time start{};
  for (int i = 0; i < 100; ++i) (void)rate.admit("address " + std::to_string(i), start);
  CHECK(rate.addresses() == 3);
  CHECK_FALSE(rate.admit("one more", start));
  CHECK(rate.admit("one more", start + 10s));
  CHECK(rate.addresses() <= 3);
}

TEST_CASE("addresses are literal, and loopback is known") {
  const auto v4 = parse_socket_address("127.0.0.1:80");
  REQUIRE(v4.ok());
  CHECK(v4->to_string() == "127.0.0.1:80");
  CHECK(v4->is_loopback());
  const auto v6 = parse_socket_address("[::1]:80");
  REQUIRE(v6.ok());
  CHECK(v6->to_string() == "[::1]:80");
  CHECK(v6->is_loopback());
  CHECK(parse_socket_address("localhost:80").value().is_loopback());
  CHECK_FALSE(parse_socket_address("0.0.0.0:80").value().is_loopback());
  CHECK_FALSE(parse_socket_address("[::]:80").value().is_loopback());
  CHECK(parse_socket_address("[::ffff:127.0.0.1]:80").value().is_loopback());
  for (const char* wrong : {"", "80", "host.example:80", "127.0.0.1", "127.0.0.1:", "::1:80",
                            "127.0.0.1:99999999999", "127.0.0.1:http"}) {
    CAPTURE(wrong);
    CHECK(parse_socket_address(wrong).status().code() == Code::invalid_argument);
  }
}

}  // namespace leat
