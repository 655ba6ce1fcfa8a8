#include "transport/io/identity.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "devices/base/text.h"

namespace leat {
namespace {

// The first bytes of each message, which tell it from the others and from another protocol.
constexpr uint32_t kHelloMagic = 0x5441454C;    // "LEAT"
constexpr uint32_t kAnswerMagic = 0x4154454C;   // "LETA"
constexpr uint32_t kVerdictMagic = 0x5645454C;  // "LEEV"
constexpr size_t kProofAt = kAnswerBytes - sizeof(Sha256Digest);

// In the order of LinkRefusal.
constexpr std::string_view kRefusalNames[] = {
    "none", "version", "cluster",     "assembly",           "run",
    "plan", "source",  "destination", "source incarnation", "destination incarnation",
    "role", "key",     "busy",        "TLS"};

// Puts fields one after the other, and gets them back in the same order. The layout is drawn in
// identity.h. REQUIRES: room for all of them, which the fixed sizes of the messages guarantee.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : rest_(out) {}
  template <typename T>
  Writer& operator<<(const T& value) {
    std::memcpy(rest_.data(), &value, sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return *this;
  }

 private:
  std::span<std::byte> rest_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : rest_(in) {}
  template <typename T>
  Reader& operator>>(T& value) {
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return *this;
  }

 private:
  std::span<const std::byte> rest_;
};

// Values in messages: numbers, and the beginning of hashes.
std::string shown(uint64_t value) { return std::to_string(value); }
template <size_t n>
std::string shown(const std::array<uint8_t, n>& value) {
  return to_hex(value).substr(0, 16);
}

}  // namespace

std::string_view refusal_name(LinkRefusal refusal) {
  return kRefusalNames[static_cast<size_t>(refusal)];
}

// The array begins as zeros, which the bytes behind the last field keep.
HelloBytes encode(const LinkHello& hello) {
  HelloBytes bytes{};
  const Identity& id = hello.identity;
  Writer(bytes) << kHelloMagic << hello.oldest << hello.newest << hello.features << id.cluster
                << id.assembly << id.run << id.plan << id.source << id.destination
                << id.source_incarnation << id.destination_incarnation << hello.nonce
                << uint32_t{static_cast<uint8_t>(hello.role)};
  return bytes;
}

Result<LinkHello> decode_hello(std::span<const std::byte, kHelloBytes> bytes) {
  LinkHello hello;
  Identity& id = hello.identity;
  uint32_t magic = 0, role = 0;
  Reader(bytes) >> magic >> hello.oldest >> hello.newest >> hello.features >> id.cluster >>
      id.assembly >> id.run >> id.plan >> id.source >> id.destination >> id.source_incarnation >>
      id.destination_incarnation >> hello.nonce >> role;
  if (magic != kHelloMagic)
    return invalid_argument("handshake: expected a hello of Leat, received other bytes");
  // An enum from outside is judged before it is one.
  if (role > static_cast<uint32_t>(SocketRole::shm))
    return invalid_argument(cat("handshake: role: expected 0 to 2, received ", role));
  hello.role = static_cast<SocketRole>(role);
  return hello;
}

// The proof stands at the end, behind zeros, so that the bytes before it can be hashed as they are.
AnswerBytes encode(const LinkAnswer& answer) {
  AnswerBytes bytes{};
  Writer(bytes) << kAnswerMagic << uint16_t{static_cast<uint8_t>(answer.refusal)} << answer.version
                << answer.features << answer.nonce;
  Writer(std::span(bytes).subspan(kProofAt)) << answer.proof;
  return bytes;
}

Result<LinkAnswer> decode_answer(std::span<const std::byte, kAnswerBytes> bytes) {
  LinkAnswer answer;
  uint32_t magic = 0;
  uint16_t refusal = 0;
  Reader(bytes) >> magic >> refusal >> answer.version >> answer.features >> answer.nonce;
  Reader(bytes.subspan(kProofAt)) >> answer.proof;
  if (magic != kAnswerMagic || refusal > static_cast<uint16_t>(LinkRefusal::seal))
    return invalid_argument("handshake: expected the answer of Leat, received other bytes");
  answer.refusal = static_cast<LinkRefusal>(refusal);
  return answer;
}

VerdictBytes encode(LinkRefusal verdict) {
  VerdictBytes bytes{};
  Writer(bytes) << kVerdictMagic << uint32_t{static_cast<uint8_t>(verdict)};
  return bytes;
}

Result<LinkRefusal> decode_verdict(std::span<const std::byte, kVerdictBytes> bytes) {
  uint32_t magic = 0, verdict = 0;
  Reader(bytes) >> magic >> verdict;
  if (magic != kVerdictMagic || verdict > static_cast<uint32_t>(LinkRefusal::seal))
    return invalid_argument("handshake: expected the verdict of Leat, received other bytes");
  return static_cast<LinkRefusal>(verdict);
}

// The order goes from the widest to the narrowest, so that the first difference explains most.
LinkRefusal judge(const Identity& expected, const LinkHello& received) {
  const Identity& id = received.identity;
  if (received.newest < kOldestProtocol || received.oldest > kNewestProtocol)
    return LinkRefusal::version;
  if (id.cluster != expected.cluster) return LinkRefusal::cluster;
  if (id.assembly != expected.assembly) return LinkRefusal::assembly;
  if (id.run != expected.run) return LinkRefusal::run;
  if (id.plan != expected.plan) return LinkRefusal::plan;
  if (id.source != expected.source) return LinkRefusal::source;
  if (id.destination != expected.destination) return LinkRefusal::destination;
  if (id.source_incarnation != expected.source_incarnation) return LinkRefusal::source_incarnation;
  if (id.destination_incarnation != expected.destination_incarnation)
    return LinkRefusal::destination_incarnation;
  return LinkRefusal::none;
}

// A refusal with the two values that differ.
Status explain(LinkRefusal refusal, const Identity& expected, const LinkHello& received,
               std::string_view peer) {
  const Identity& id = received.identity;
  std::string wanted, got;
  const auto differ = [&](const auto& a, const auto& b) {
    wanted = shown(a);
    got = shown(b);
  };
  switch (refusal) {
    case LinkRefusal::none:
      return {};
    case LinkRefusal::version:
      wanted = cat(kOldestProtocol, " to ", kNewestProtocol);
      got = cat(received.oldest, " to ", received.newest);
      break;
    case LinkRefusal::cluster:
      differ(expected.cluster, id.cluster);
      break;
    case LinkRefusal::assembly:
      differ(expected.assembly, id.assembly);
      break;
    case LinkRefusal::run:
      differ(expected.run, id.run);
      break;
    case LinkRefusal::plan:
      differ(expected.plan, id.plan);
      break;
    case LinkRefusal::source:
      differ(expected.source, id.source);
      break;
    case LinkRefusal::destination:
      differ(expected.destination, id.destination);
      break;
    case LinkRefusal::source_incarnation:
      differ(expected.source_incarnation, id.source_incarnation);
      break;
    case LinkRefusal::destination_incarnation:
      differ(expected.destination_incarnation, id.destination_incarnation);
      break;
    case LinkRefusal::seal:
      return failed_precondition(cat("handshake with ", peer,
                                     ": TLS: expected a dialer that wants it, since it comes from "
                                     "another machine and insecure_plaintext is not set here"));
    case LinkRefusal::role:
    case LinkRefusal::key:
    case LinkRefusal::busy:
      return failed_precondition(cat("handshake with ", peer, ": ", refusal_name(refusal),
                                     ": it is not what is expected here"));
  }
  return failed_precondition(cat("handshake with ", peer, ": ", refusal_name(refusal),
                                 ": expected ", wanted, ", received ", got));
}

// HMAC of RFC 2104 with SHA-256, whose blocks have 64 bytes.
Sha256Digest prove(const RunKey& key, Prover prover, const HelloBytes& hello,
                   const AnswerBytes& answer) {
  std::array<uint8_t, 64> inner{}, outer{};
  std::copy(key.begin(), key.end(), inner.begin());
  outer = inner;
  for (uint8_t& byte : inner) byte ^= 0x36;
  for (uint8_t& byte : outer) byte ^= 0x5c;
  Sha256 hash;
  hash.update(std::as_bytes(std::span(inner)));
  // Over the side, the whole hello, and the answer up to its proof.
  hash.update(std::as_bytes(std::span(&prover, 1)));
  hash.update(hello);
  hash.update(std::span(answer).first(kProofAt));
  const Sha256Digest digest = hash.finish();
  hash.update(std::as_bytes(std::span(outer)));
  hash.update(std::as_bytes(std::span(digest)));
  return hash.finish();
}

TlsKey seal_key(const RunKey& key, const LinkHello& hello) {
  constexpr std::string_view kUse = "leat data seal";
  std::vector<uint8_t> text(kUse.begin(), kUse.end());
  for (const std::byte byte : encode(hello)) text.push_back(static_cast<uint8_t>(byte));
  return derive_key(key, text);
}

// Looks at every byte, so that the time says nothing about the first difference.
bool same(const Sha256Digest& a, const Sha256Digest& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

LinkNonce link_nonce() {
  LinkNonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    // Up to 256 bytes never fail once the kernel has booted.
    std::abort();
  return nonce;
}

}  // namespace leat
