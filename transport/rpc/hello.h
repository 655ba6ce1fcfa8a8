// The handshake of a control connection, before Cap'n Proto sees a byte: each end tells its role,
// its protocol version and its features, and proves its key.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "transport/rpc/grant.h"
#include "transport/rpc/rpc_role.h"
#include "transport/rpc/secrets.h"
#include "transport/seal/certificates.h"
#include "transport/seal/seal.h"
#include "transport/seal/tls_session.h"

namespace leat {

// The feature of an end that can put TLS under the connection. The end that requires it has the bit
// in both masks of its hello.
inline constexpr uint64_t kSealFeature = uint64_t{1} << 32;

// The facts that one end tells about itself.
struct RpcIdentity {
  uint16_t protocol_version = 2;
  // Bits that this end has, and bits that the other end must have.
  uint64_t features = 0;
  uint64_t required_features = 0;
  RpcRole role = RpcRole::none;
  // The cluster's name: at most 32 bytes, none of them zero.
  std::string cluster;
  // The secret of the cluster, at least 16 bytes, or for the end that opens a connection the text
  // of a token (grant.h). Empty: neither end proves anything.
  std::string secret;
  // If set, identity_over() takes the secret from there, so that it can be replaced.
  std::shared_ptr<const Secrets> secrets = {};
  // Of an acceptor: the secret before, with which it also lets peers in. Empty: none.
  std::string previous_secret = {};
  // Of an acceptor without a secret: the keys of runners are made from it. Empty: none.
  std::string own_secret = {};
  // Which connections this end makes or takes only with TLS. Without a secret there is no TLS.
  Seal seal = Seal::beyond_loopback;
  // If set, an end that opens a connection proves itself by its certificate and not by the secret:
  // TLS begins with the first byte, the acceptor has to be a master of the cluster, and the hello
  // goes through TLS. An acceptor takes such connections, and those of keys of its secret, too.
  std::shared_ptr<const CurrentCertificates> certificates = {};
};
// The identity for the hello inside of a TLS in which both ends have shown certificates: proofs are
// zeros there, and no further TLS begins.
RpcIdentity identity_in_tls(const RpcIdentity& identity);
// Whether the certificate is that of a master of the cluster; failed_precondition with the address.
Status check_master(const PeerCertificate& peer, const RpcIdentity& identity,
                    std::string_view address);
// The identity of an end for one connection, over loopback or over a network: with the secrets of
// the moment, and the bits of kSealFeature as its policy wants them.
RpcIdentity identity_over(const RpcIdentity& identity, bool loopback);

// invalid_argument, with the name of the field, if the hello has no room for it, the secret is too
// short, or its token is none.
Status check_identity(const RpcIdentity& identity);

// The other end, after the handshake.
struct RpcPeer {
  RpcRole role = RpcRole::none;
  uint64_t features = 0;
  // It has proved its key.
  bool authenticated = false;
  // The rights of its key, its certificate or its user. Without a secret, and without a judge of
  // users, every peer is a member.
  Grant grant;
  // TLS is under the connection.
  bool sealed = false;
  // "127.0.0.1:4711".
  std::string address;
  // At a server, the number of the connection, for RpcServer::drop().
  uint64_t connection = 0;
};

// The reason why an end does not go on: the first field that differs.
enum class Refusal : uint16_t {
  none = 0,
  version,
  features,
  cluster,
  role,
  authentication,
  busy,
  expired,
  revoked,
  user,  // of this machine
};
// "protocol version", "authentication".
std::string_view refusal_name(Refusal refusal);
// The refusal as an error for the owner of `identity` about the end at `address`: unavailable if
// that end is busy, else failed_precondition. REQUIRES: refusal is not none.
Status refusal_status(Refusal refusal, const RpcIdentity& identity, std::string_view address);

// Four messages of fixed size, numbers little-endian, one and a half round trips:
//
//   Hello    opener -> acceptor        Answer   acceptor -> opener
//    0  4  "LEAT"                       0  4  "LEAT"
//    4  2  protocol version             4  2  protocol version
//    6  2  role                         6  2  refusal
//    8  8  features                     8  8  features
//   16  8  required features           16  8  required features
//   24 16  nonce                       24 16  nonce
//   40 32  cluster, zeros after it     40 24  zeros
//   72  1  right
//   73  7  zeros
//   80  8  the token expires, in seconds since 1970; 0: never
//   88  8  number of the token
//   96 64  name of the grant, zeros after it
//   Proof    opener -> acceptor        Verdict  acceptor -> opener
//    0 32  HMAC-SHA256 of the key       0  4  "LEAT"
//          over "leat opener",          4  2  refusal
//          Hello, Answer                6  2  zeros
//                                       8 32  HMAC-SHA256 of the key over "leat acceptor", Hello,
//                                             Answer; zeros with a refusal
//
// A hello of version 1 has only the first 96 bytes, so an acceptor reads these first. The key is
// that of the grant in the hello, which the acceptor derives from the secret. Each proof covers
// both nonces and everything that was said before. So it cannot be replayed, and it does not fit a
// hello that was changed on its way. The opener proves first, so that an end without the secret
// gets nothing to guess it from. Without a secret, proofs are zeros.
//
// After the verdict, TLS 1.3 begins if both ends have kSealFeature and one of them requires it. Its
// pre-shared key is an HMAC-SHA256 of the key over "leat seal", Hello and Answer. The proofs
// cover both masks, so no one between the two can take the feature away.
inline constexpr size_t kRpcHelloBytes = 160;
inline constexpr size_t kRpcHelloStart = 96;  // of all versions
inline constexpr size_t kRpcAnswerBytes = 64;
inline constexpr size_t kRpcProofBytes = 32;
inline constexpr size_t kRpcVerdictBytes = 40;
using Hello = std::array<uint8_t, kRpcHelloBytes>;
using RpcAnswer = std::array<uint8_t, kRpcAnswerBytes>;
using Proof = std::array<uint8_t, kRpcProofBytes>;
using Verdict = std::array<uint8_t, kRpcVerdictBytes>;
using Nonce = std::array<uint8_t, 16>;

// 16 random bytes from the kernel.
Nonce random_nonce();

// The acceptor's side of one handshake. Pure: bytes in, bytes out. `identity` outlives it.
// Threads: one at a time.
class AcceptorHandshake {
 public:
  AcceptorHandshake(const RpcIdentity& identity, Nonce nonce)
      : identity_(identity), nonce_(nonce) {}

  // Whether the rest of a hello follows its first kRpcHelloStart bytes. Otherwise on_hello() gets
  // zeros for it, and refuses the version.
  static bool has_rest(const Hello& start);
  // The answer, with or without a refusal. Nothing if the bytes are not a hello.
  std::optional<RpcAnswer> on_hello(const Hello& hello);
  // Judges the opener's proof, and whether its right fits its role. REQUIRES: on_hello() answered
  // without a refusal.
  Refusal on_proof(const Proof& proof);
  // The last message, with the acceptor's own proof if it refuses nothing.
  Verdict verdict(Refusal refusal) const;

  // The refusal in the answer.
  Refusal refusal() const { return refusal_; }
  // The secret that the peer's key is made from. REQUIRES: as peer().
  const std::string& secret() const {
    return by_previous_ ? identity_.previous_secret : identity_.secret;
  }
  // The key of the TLS that follows; nothing if none does. REQUIRES: as peer().
  std::optional<TlsKey> seal_key() const;
  // The opener, without its address. It counts as authenticated if there is a secret. REQUIRES:
  // on_proof() returned none.
  RpcPeer peer() const;

 private:
  Refusal judge() const;

  const RpcIdentity& identity_;
  Nonce nonce_;
  Hello hello_{};
  RpcAnswer answer_{};
  Refusal refusal_ = Refusal::none;
  Grant grant_;
  std::string key_;
  bool by_previous_ = false;  // the peer has proved a key of the previous secret
};

// The opener's side of one handshake. Errors name the field that differs. `identity` outlives it.
// Threads: one at a time.
class OpenerHandshake {
 public:
  // REQUIRES: check_identity() was ok.
  OpenerHandshake(const RpcIdentity& identity, std::string address, Nonce nonce);

  const Hello& hello() const { return hello_; }
  // Judges the answer and proves this end.
  Result<Proof> on_answer(const RpcAnswer& answer);
  // Judges the verdict and returns the acceptor. REQUIRES: on_answer() returned a proof.
  Result<RpcPeer> on_verdict(const Verdict& verdict) const;
  // The key of the TLS that follows; nothing if none does. REQUIRES: on_verdict() was ok.
  std::optional<TlsKey> seal_key() const;

 private:
  const RpcIdentity& identity_;
  std::string address_;
  Credential credential_;
  Hello hello_{};
  RpcAnswer answer_{};
};

}  // namespace leat
