// Who is at the other end of a connection, settled once, before the first frame.
//
// A connection belongs to one pair of partitions of one run in one assembly. A new assembly, a restarted
// process or another plan means a new connection, so that frames need no identity of their own and
// a frame of an old run cannot arrive.
//
// The handshake, four messages of fixed size, little-endian:
//
//   dialer   -> listener  LinkHello: versions, features, identity, socket role, nonce
//   listener -> dialer    LinkAnswer: refused and why, or version, features, nonce, proof
//   dialer   -> listener  its proof
//   listener -> dialer    Verdict
//
// A proof is HMAC-SHA256, under the run's key, of the prover's side and both messages before it:
// whoever has not been given the key by the master can neither dial nor answer. The frames that
// follow are neither encrypted nor sealed: a proof says who is there at the beginning, no more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "devices/base/sha256.h"
#include "devices/base/status.h"

namespace leat {

// Protocol versions that this build speaks.
inline constexpr uint16_t kOldestProtocol = 1;
inline constexpr uint16_t kNewestProtocol = 1;
// Features are bits; what both ends have is used. None is defined yet.
inline constexpr uint64_t kFeatures = 0;

using RunKey = std::array<uint8_t, 32>;  // a secret of the run, handed out by the master
using LinkNonce = std::array<uint8_t, 32>;

struct Identity {
  std::array<uint8_t, 16> cluster{};
  uint64_t assembly = 0;
  uint64_t run = 0;
  Sha256Digest plan{};
  uint32_t source = 0, destination = 0;  // partitions of the plan; the source dials
  uint64_t source_incarnation = 0;       // random, of a process's life
  uint64_t destination_incarnation = 0;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// What a connection is for.
enum class SocketRole : uint8_t { express = 0, bulk = 1, shm = 2 };

// Why a hello is refused: the field that differs. `none`: it is not.
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
  busy,  // no field: the listener has no room
};
std::string_view refusal_name(LinkRefusal refusal);

struct LinkHello {
  uint16_t oldest = kOldestProtocol, newest = kNewestProtocol;
  uint64_t features = kFeatures;
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

HelloBytes encode(const LinkHello& hello);
AnswerBytes encode(const LinkAnswer& answer);
VerdictBytes encode(LinkRefusal verdict);
// invalid_argument if the bytes are no such message at all.
Result<LinkHello> decode_hello(std::span<const std::byte, kHelloBytes> bytes);
Result<LinkAnswer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes);
Result<LinkRefusal> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes);

// The first field in which `received` is not what is expected, and the newest version that both
// ends speak is not there.
LinkRefusal judge(const Identity& expected, const LinkHello& received);
// "handshake with X: assembly: expected 7, received 6" for what judge() found.
Status explain(LinkRefusal refusal, const Identity& expected, const LinkHello& received,
               std::string_view peer);

enum class Prover : uint8_t { dialer = 1, listener = 2 };
// Of the answer, its first bytes count: those before the proof.
Sha256Digest prove(const RunKey& key, Prover prover, const HelloBytes& hello,
                   const AnswerBytes& answer);
// Takes the same time wherever the two differ.
bool same(const Sha256Digest& a, const Sha256Digest& b);

// Fresh from the kernel.
LinkNonce link_nonce();

}  // namespace leat
