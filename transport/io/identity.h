// The two ends of a connection of the data plane find out, before the first frame, that each is the
// peer that the other one expects.
//
// A connection belongs to one pair of partitions of one run in one assembly. A new assembly, a
// restarted process and another plan each need a new connection, so that frames carry no identity
// and a frame of an old run cannot arrive.
//
// The handshake has four messages of fixed size, little-endian, in this order:
//
// Hello    dialer -> listener        Answer   listener -> dialer
//   0  4  "LEAT"                       0  4  "LETA"
//   4  2  oldest version               4  2  refusal, 0 for none
//   6  2  newest version               6  2  version
//   8  8  features                     8  8  features
//  16 16  cluster                     16 32  nonce
//  32  8  assembly                    48  8  zeros
//  40  8  run                         56 32  the listener's proof
//  48 32  plan
//  80  4  source                    Proof    dialer -> listener
//  84  4  destination                  0 32  the dialer's proof
//  88  8  source incarnation
//  96  8  destination incarnation   Verdict  listener -> dialer
// 104 32  nonce                        0  4  "LEEV"
// 136  4  role                         4  4  refusal, 0 for none
// 140 20  zeros
//
// A proof is the HMAC-SHA256, under the run's key, of the prover's side, the hello, and the answer
// up to its proof. Only a process that the master gave the key to can dial or answer. Both proofs
// cover the features, so no one between the two can take kSealed away.
//
// Threads: everything here is a value or a pure function.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "devices/base/sha256.h"
#include "devices/base/status.h"
#include "transport/seal/tls_session.h"

namespace leat {

// The versions of the protocol that this build speaks.
inline constexpr uint16_t kOldestProtocol = 1;
inline constexpr uint16_t kNewestProtocol = 1;
// Features are bits, and both ends use those that both have. With kSealed, which the dialer sets if
// it wants it, TLS begins after the verdict; its key is seal_key().
inline constexpr uint64_t kSealed = 1;
inline constexpr uint64_t kFeatures = kSealed;

// A secret of the run, which the master hands out.
using RunKey = std::array<uint8_t, 32>;
// Random bytes, new for every handshake.
using LinkNonce = std::array<uint8_t, 32>;

// The connection that a hello is for.
struct Identity {
  // A random number of the cluster.
  std::array<uint8_t, 16> cluster{};
  // The numbers of the assembly and of its run, and the hash of the plan.
  uint64_t assembly = 0;
  uint64_t run = 0;
  Sha256Digest plan{};
  // Partitions of the plan. The source dials.
  uint32_t source = 0, destination = 0;
  // A random number of each process's life.
  uint64_t source_incarnation = 0;
  uint64_t destination_incarnation = 0;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// The use of a connection.
enum class SocketRole : uint8_t { express = 0, bulk = 1, shm = 2 };

// The reason why a hello is refused: the field that differs, or `busy` if the listener has no room.
enum class LinkRefusal : uint8_t {
  none = 0,
  version,
  cluster,
  assembly,
  run,
  plan,
  source,
  destination,
  source_incarnation,
  destination_incarnation,
  role,
  key,
  busy,
  seal,
};
// "assembly", "source incarnation".
std::string_view refusal_name(LinkRefusal refusal);

// The fields of the messages, as the layout above has them.
struct LinkHello {
  uint16_t oldest = kOldestProtocol, newest = kNewestProtocol;
  uint64_t features = 0;
  Identity identity;
  SocketRole role = SocketRole::express;
  LinkNonce nonce{};
};

struct LinkAnswer {
  LinkRefusal refusal = LinkRefusal::none;
  uint16_t version = kNewestProtocol;
  uint64_t features = kFeatures;
  LinkNonce nonce{};
  Sha256Digest proof{};
};

inline constexpr size_t kHelloBytes = 160;
inline constexpr size_t kAnswerBytes = 88;
inline constexpr size_t kVerdictBytes = 8;
using HelloBytes = std::array<std::byte, kHelloBytes>;
using AnswerBytes = std::array<std::byte, kAnswerBytes>;
using VerdictBytes = std::array<std::byte, kVerdictBytes>;

// Write a message. Fields that are not filled are zeros.
HelloBytes encode(const LinkHello& hello);
AnswerBytes encode(const LinkAnswer& answer);
VerdictBytes encode(LinkRefusal verdict);
// Read a message. invalid_argument if the bytes are no such message at all.
Result<LinkHello> decode_hello(std::span<const std::byte, kHelloBytes> bytes);
Result<LinkAnswer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes);
Result<LinkRefusal> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes);

// The first field of `received` that differs from `expected`, or `version` if the two ends have
// none in common, or `none`.
LinkRefusal judge(const Identity& expected, const LinkHello& received);
// "handshake with X: assembly: expected 7, received 6", for a refusal that judge() found. Ok for
// none.
Status explain(LinkRefusal refusal, const Identity& expected, const LinkHello& received,
               std::string_view peer);

// The key of the TLS over the connection that the hello began. The hello has the dialer's nonce, so
// each connection has a key of its own.
TlsKey seal_key(const RunKey& key, const LinkHello& hello);

// The side that proves. Its number is in the proof, so that neither end can return the other's.
enum class Prover : uint8_t { dialer = 1, listener = 2 };
// The proof of one side. Of the answer, only the bytes before its proof count.
Sha256Digest prove(const RunKey& key, Prover prover, const HelloBytes& hello,
                   const AnswerBytes& answer);
// Compares in a time that does not depend on where the two differ.
bool same(const Sha256Digest& a, const Sha256Digest& b);

// Fresh random bytes from the kernel.
LinkNonce link_nonce();

}  // namespace leat
