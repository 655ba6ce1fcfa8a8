// What two ends of a control connection say to each other before Cap'n Proto sees a byte: who they
// are, what they speak, and that they know the secret.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "devices/base/status.h"

namespace leat {

// What the opener of a connection is. With one shared secret a role is what its owner says of
// itself: it chooses an interface, it does not prove a right.
enum class RpcRole : uint16_t { none = 0, client, worker, master, runner };
std::string_view rpc_role_name(RpcRole role);

// What one end says of itself.
struct RpcIdentity {
  uint16_t protocol_version = 1;
  uint64_t features = 0;           // bits that this end has
  uint64_t required_features = 0;  // bits that the other end must have
  RpcRole role = RpcRole::none;
  std::string cluster;  // at most 32 bytes, no zero among them
  // Known to every member of the cluster, at least 16 bytes. Empty: neither end proves anything.
  std::string secret;
};

// invalid_argument that names the field which cannot be sent.
Status check_identity(const RpcIdentity& identity);

// The other end, after the handshake.
struct RpcPeer {
  RpcRole role = RpcRole::none;
  uint64_t features = 0;
  bool authenticated = false;  // it proved that it knows the secret
  std::string address;         // "127.0.0.1:4711"
  uint64_t connection = 0;     // at a server, its number: see RpcServer::drop()
};

// Why an end does not go on, in terms of the first field that differs.
enum class Refusal : uint16_t {
  none = 0,
  version,
  features,
  cluster,
  role,
  authentication,
  busy,
};
std::string_view refusal_name(Refusal refusal);
// As an error for `identity`'s owner about the other end at `address`: unavailable when it is busy,
// else failed_precondition. REQUIRES: refusal is not none.
Status refusal_status(Refusal refusal, const RpcIdentity& identity, std::string_view address);

// Four messages of fixed size, numbers little-endian, one round trip and a half:
//
//   Hello    opener -> acceptor        Answer   acceptor -> opener
//    0  4  "LEAT"                       0  4  "LEAT"
//    4  2  protocol version             4  2  protocol version
//    6  2  role                         6  2  refusal
//    8  8  features                     8  8  features
//   16  8  required features           16  8  required features
//   24 16  nonce                       24 16  nonce
//   40 32  cluster, zeros after it     40 24  zeros
//   72 24  zeros
//   Proof    opener -> acceptor        Verdict  acceptor -> opener
//    0 32  HMAC-SHA256 of the secret    0  4  "LEAT"
//          over "leat opener",          4  2  refusal
//          Hello, Answer                6  2  zeros
//                                       8 32  HMAC-SHA256 of the secret over "leat acceptor",
//                                             Hello, Answer; zeros with a refusal
//
// Each proof covers both nonces and all that was said, so it can be neither replayed nor kept over
// from a hello that was changed on its way. The opener proves first: who does not know the secret
// gets nothing to guess it from by knocking. Proofs are zeros without a secret. What comes after is
// neither encrypted nor sealed, since there is no TLS underneath yet.
inline constexpr size_t kRpcHelloBytes = 96;
inline constexpr size_t kRpcAnswerBytes = 64;
inline constexpr size_t kRpcProofBytes = 32;
inline constexpr size_t kRpcVerdictBytes = 40;
using Hello = std::array<uint8_t, kRpcHelloBytes>;
using RpcAnswer = std::array<uint8_t, kRpcAnswerBytes>;
using Proof = std::array<uint8_t, kRpcProofBytes>;
using Verdict = std::array<uint8_t, kRpcVerdictBytes>;
using Nonce = std::array<uint8_t, 16>;

// From the kernel's random numbers.
Nonce random_nonce();

// The acceptor's side of one handshake. Pure: bytes in, bytes out. Threads: one at a time.
class AcceptorHandshake {
 public:
  AcceptorHandshake(const RpcIdentity& identity, Nonce nonce)
      : identity_(identity), nonce_(nonce) {}

  // The answer, with a refusal or none; no answer at all to what is not a hello.
  std::optional<RpcAnswer> on_hello(const Hello& hello);
  // What refuses the peer, if something does. REQUIRES: on_hello() answered without a refusal.
  Refusal on_proof(const Proof& proof) const;
  Verdict verdict(Refusal refusal) const;

  Refusal refusal() const { return refusal_; }
  // Address is empty. Authenticated if there is a secret: REQUIRES: on_proof() said none.
  RpcPeer peer() const;

 private:
  Refusal judge() const;

  const RpcIdentity& identity_;
  Nonce nonce_;
  Hello hello_{};
  RpcAnswer answer_{};
  Refusal refusal_ = Refusal::none;
};

// The opener's side. Errors name the field that differs.
class OpenerHandshake {
 public:
  OpenerHandshake(const RpcIdentity& identity, std::string address, Nonce nonce);

  const Hello& hello() const { return hello_; }
  Result<Proof> on_answer(const RpcAnswer& answer);
  // The acceptor. REQUIRES: on_answer() gave a proof.
  Result<RpcPeer> on_verdict(const Verdict& verdict) const;

 private:
  const RpcIdentity& identity_;
  std::string address_;
  Hello hello_{};
  RpcAnswer answer_{};
};

}  // namespace leat
