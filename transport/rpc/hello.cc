#include "transport/rpc/hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ios>
#include <tuple>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kMagic = "LEAT";
constexpr size_t kClusterBytes = 32;
constexpr size_t kMinSecret = 16;

// Reads a little-endian number.
template <typename T>
T get(std::span<const uint8_t> bytes, size_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{bytes[offset + i]} << (8 * i));
  return value;
}

template <typename T>
void put(std::span<uint8_t> bytes, size_t offset, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes[offset + i] = static_cast<uint8_t>(uint64_t{value} >> (8 * i));
  }
}

// Copies a text. The caller has checked that there is room, and the rest stays zeros.
void put_text(std::span<uint8_t> bytes, size_t offset, std::string_view text) {
  if (!text.empty()) std::memcpy(bytes.data() + offset, text.data(), text.size());
}

// The text up to its first zero.
std::string get_text(std::span<const uint8_t> bytes, size_t offset, size_t most) {
  const auto field = bytes.subspan(offset, most);
  return std::string(field.begin(), std::find(field.begin(), field.end(), 0));
}

bool has_magic(std::span<const uint8_t> bytes) {
  return std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

// The HMAC over the label and both messages; zeros without a secret. The labels differ, so that a
// proof of one end cannot be sent back as that of the other.
Proof prove(std::string_view secret, std::string_view label, const Hello& hello,
            const RpcAnswer& answer) {
  Proof proof{};
  if (secret.empty()) return proof;
  std::string said(label);
  said.append(hello.begin(), hello.end()).append(answer.begin(), answer.end());
  unsigned length = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(said.data()), said.size(), proof.data(),
           &length) == nullptr) {
    // Without the function there is no way to go on safely.
    std::fprintf(stderr, "libcrypto has no HMAC-SHA256: it is not installed properly\n");
    std::abort();
  }
  return proof;
}

// Takes the same time wherever the first difference is.
bool same(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

constexpr std::string_view kOpener = "leat opener";
constexpr std::string_view kAcceptor = "leat acceptor";
constexpr std::string_view kSealing = "leat seal";

std::optional<TlsKey> seal_key_of(std::string_view secret, const Hello& hello,
                                  const RpcAnswer& answer) {
  const auto features = get<uint64_t>(hello, 8) & get<uint64_t>(answer, 8);
  const auto required = get<uint64_t>(hello, 16) | get<uint64_t>(answer, 16);
  if ((features & required & kSealFeature) == 0 || secret.empty()) return std::nullopt;
  return prove(secret, kSealing, hello, answer);
}

// "0x6", or the name of the one feature that people turn on and off.
std::string feature_names(uint64_t features) {
  if (features == kSealFeature) {
    return "TLS (insecure_plaintext has to be the same at both ends, and seal_loopback too)";
  }
  return cat("0x", std::hex, features);
}

// Tells this end's user which entry to ask an admin for. It names the user by number, since the
// accounts of the machine may be slow, and this is the loop of a client, worker or runner.
Status no_role_for_user(std::string_view start, RpcRole role) {
  const uid_t user = ::geteuid();
  return failed_precondition(
      cat(start, "user ", user, " of this machine has no role there that may be a ",
          rpc_role_name(role), ", or the master cannot see this process's user; ask an admin of ",
          "the cluster for an entry 'uid:", user, ": ",
          role == RpcRole::client ? "submitter" : "worker",
          "', or one of the user's name, in local_users of the master"));
}

}  // namespace

std::string_view refusal_name(Refusal refusal) {
  switch (refusal) {
    case Refusal::none:
      return "none";
    case Refusal::version:
      return "protocol version";
    case Refusal::features:
      return "features";
    case Refusal::cluster:
      return "cluster";
    case Refusal::role:
      return "role";
    case Refusal::authentication:
      return "authentication";
    case Refusal::busy:
      return "busy";
    case Refusal::expired:
      return "expired token";
    case Refusal::revoked:
      return "revoked token";
    case Refusal::user:
      return "user";
  }
  return "unknown";
}

Status refusal_status(Refusal refusal, const RpcIdentity& identity, std::string_view address) {
  // The other end has told one number. The text names the field and what this end has in it.
  const std::string start = cat(address, " refused the hello: ");
  switch (refusal) {
    case Refusal::version:
      return failed_precondition(
          cat(start, "its protocol version differs from this end's ", identity.protocol_version));
    case Refusal::features:
      return failed_precondition(cat(start, "it needs features that this end has not, which are 0x",
                                     std::hex, identity.features));
    case Refusal::cluster:
      return failed_precondition(
          cat(start, "it does not belong to cluster '", identity.cluster, "'"));
    case Refusal::role:
      return failed_precondition(
          cat(start, "it has nothing for the role ", rpc_role_name(identity.role)));
    case Refusal::authentication:
      return failed_precondition(
          cat(start, "authentication failed, ",
              identity.secret.empty() ? "this end has no secret" : "the secrets differ"));
    case Refusal::expired:
      return failed_precondition(cat(start, "this end's token has expired"));
    case Refusal::revoked:
      return failed_precondition(
          cat(start, "this end's token was revoked, or the master has no record of it"));
    case Refusal::user:
      return no_role_for_user(start, identity.role);
    case Refusal::busy:
      return unavailable(cat(start, "it has no room for more connections"));
    // A later version may have further reasons.
    default:
      return failed_precondition(cat(start, "for a reason that this end does not know"));
  }
}

RpcIdentity identity_over(const RpcIdentity& identity, bool loopback) {
  RpcIdentity over = identity;
  if (identity.secrets) std::tie(over.secret, over.previous_secret) = identity.secrets->both();
  const bool no_keys = over.secret.empty() && over.own_secret.empty();
  if (no_keys || identity.seal == Seal::never) return over;
  over.features |= kSealFeature;
  // Without a secret of the cluster there are peers without keys, which cannot have TLS.
  if (!over.secret.empty() && is_required(identity.seal, loopback))
    over.required_features |= kSealFeature;
  return over;
}

RpcIdentity identity_in_tls(const RpcIdentity& identity) {
  RpcIdentity inside = identity;
  inside.secret.clear();
  inside.previous_secret.clear();
  inside.own_secret.clear();
  inside.secrets = nullptr;
  inside.seal = Seal::never;
  inside.features &= ~kSealFeature;
  inside.required_features &= ~kSealFeature;
  return inside;
}

Status check_master(const PeerCertificate& peer, const RpcIdentity& identity,
                    std::string_view address) {
  if (peer.name.role == "master" && peer.name.cluster == identity.cluster) return {};
  return failed_precondition(cat("certificate of ", address, ": expected that of a master of ",
                                 "cluster '", identity.cluster, "', received ", uri_of(peer.name)));
}

Status check_identity(const RpcIdentity& identity) {
  if (identity.cluster.size() > kClusterBytes || identity.cluster.find('\0') != std::string::npos) {
    return invalid_argument(cat("cluster name '", identity.cluster, "': expected at most ",
                                kClusterBytes, " bytes without zeros, received ",
                                identity.cluster.size()));
  }
  if (!identity.secret.empty() && identity.secret.size() < kMinSecret) {
    return invalid_argument(
        cat("secret of ", identity.secret.size(), " bytes: expected at least ", kMinSecret));
  }
  const auto credential = read_credential(identity.secret);
  if (credential.ok() && credential->grant.right != Right::member &&
      identity.role == RpcRole::master) {
    return invalid_argument("secret: expected the secret of the cluster, received a token");
  }
  return credential.status();
}

Nonce random_nonce() {
  Nonce nonce;
  // A nonce that can be guessed would let an old proof count again, so there is no way to go on.
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    std::fprintf(stderr, "the kernel gives no random numbers\n");
    std::abort();
  }
  return nonce;
}

bool AcceptorHandshake::has_rest(const Hello& start) {
  return has_magic(start) && get<uint16_t>(start, 4) >= 2;
}

std::optional<RpcAnswer> AcceptorHandshake::on_hello(const Hello& hello) {
  // Bytes that are no hello get no answer at all: they may be of any protocol.
  if (!has_magic(hello)) return std::nullopt;
  hello_ = hello;
  refusal_ = judge();
  const auto right = static_cast<Right>(hello[72]);
  grant_.right = right <= Right::runner ? right : Right::member;
  grant_.expires = static_cast<int64_t>(get<uint64_t>(hello, 80));
  grant_.number = get<uint64_t>(hello, 88);
  grant_.name = get_text(hello, 96, Grant::kMostName);
  const bool runner = grant_.right == Right::runner;
  const std::string& secret =
      identity_.secret.empty() && runner ? identity_.own_secret : identity_.secret;
  key_ = secret.empty() ? "" : key_of(grant_, secret);
  // The answer is the same with and without a refusal, except for that field. Both proofs cover it.
  put_text(answer_, 0, kMagic);
  put<uint16_t>(answer_, 4, identity_.protocol_version);
  put<uint16_t>(answer_, 6, static_cast<uint16_t>(refusal_));
  put<uint64_t>(answer_, 8, identity_.features);
  put<uint64_t>(answer_, 16, identity_.required_features);
  std::copy(nonce_.begin(), nonce_.end(), answer_.begin() + 24);
  return answer_;
}

// Judges only this end's needs. The opener judges its own, because it sees this end's features.
Refusal AcceptorHandshake::judge() const {
  if (get<uint16_t>(hello_, 4) != identity_.protocol_version) return Refusal::version;
  if ((identity_.required_features & ~get<uint64_t>(hello_, 8)) != 0) return Refusal::features;
  // The zeros behind the name are compared as well, so that a name never matches a longer one.
  Hello mine{};
  put_text(mine, 40, identity_.cluster);
  if (!std::equal(mine.begin() + 40, mine.begin() + 40 + kClusterBytes, hello_.begin() + 40)) {
    return Refusal::cluster;
  }
  return Refusal::none;
}

Refusal AcceptorHandshake::on_proof(const Proof& proof) {
  // Without a secret both are zeros. An opener that has a secret is refused then, and the other way
  // round.
  const auto fits_key = [&] { return same(proof, prove(key_, kOpener, hello_, answer_)); };
  if (!fits_key()) {
    if (identity_.previous_secret.empty()) return Refusal::authentication;
    by_previous_ = true;
    key_ = key_of(grant_, identity_.previous_secret);
    if (!fits_key()) return Refusal::authentication;
  }
  return fits(grant_.right, static_cast<RpcRole>(get<uint16_t>(hello_, 6))) ? Refusal::none
                                                                            : Refusal::role;
}

Verdict AcceptorHandshake::verdict(Refusal refusal) const {
  Verdict verdict{};
  put_text(verdict, 0, kMagic);
  put<uint16_t>(verdict, 4, static_cast<uint16_t>(refusal));
  if (refusal == Refusal::none) {
    const Proof proof = prove(key_, kAcceptor, hello_, answer_);
    std::copy(proof.begin(), proof.end(), verdict.begin() + 8);
  }
  return verdict;
}

RpcPeer AcceptorHandshake::peer() const {
  return {.role = static_cast<RpcRole>(get<uint16_t>(hello_, 6)),
          .features = get<uint64_t>(hello_, 8),
          .authenticated = !key_.empty(),
          .grant = key_.empty() ? Grant() : grant_,
          .sealed = seal_key().has_value(),
          .address = {}};
}

std::optional<TlsKey> AcceptorHandshake::seal_key() const {
  return seal_key_of(key_, hello_, answer_);
}

std::optional<TlsKey> OpenerHandshake::seal_key() const {
  return seal_key_of(credential_.key, hello_, answer_);
}

OpenerHandshake::OpenerHandshake(const RpcIdentity& identity, std::string address, Nonce nonce)
    : identity_(identity),
      address_(std::move(address)),
      credential_(read_credential(identity.secret).value()) {
  put_text(hello_, 0, kMagic);
  put<uint16_t>(hello_, 4, identity.protocol_version);
  put<uint16_t>(hello_, 6, static_cast<uint16_t>(identity.role));
  put<uint64_t>(hello_, 8, identity.features);
  put<uint64_t>(hello_, 16, identity.required_features);
  std::copy(nonce.begin(), nonce.end(), hello_.begin() + 24);
  put_text(hello_, 40, identity.cluster);
  const Grant& grant = credential_.grant;
  hello_[72] = static_cast<uint8_t>(grant.right);
  put<uint64_t>(hello_, 80, static_cast<uint64_t>(grant.expires));
  put<uint64_t>(hello_, 88, grant.number);
  put_text(hello_, 96, grant.name);
}

Result<Proof> OpenerHandshake::on_answer(const RpcAnswer& answer) {
  if (!has_magic(answer)) {
    return failed_precondition(cat(address_, " is no end of this protocol: expected '", kMagic,
                                   "' at the start of its answer"));
  }
  answer_ = answer;
  // The version comes first: with another one, the other fields may mean anything.
  const auto version = get<uint16_t>(answer, 4);
  if (version != identity_.protocol_version) {
    return failed_precondition(cat("protocol version of ", address_, ": expected ",
                                   identity_.protocol_version, ", received ", version));
  }
  const auto refusal = static_cast<Refusal>(get<uint16_t>(answer, 6));
  const auto features = get<uint64_t>(answer, 8);
  // The answer has the features that the other end requires, so this message can name those that
  // lack.
  if (refusal == Refusal::features) {
    return failed_precondition(cat("features of this end: ", address_, " expected also ",
                                   feature_names(get<uint64_t>(answer, 16) & ~identity_.features),
                                   ", this end has 0x", std::hex, identity_.features));
  }
  if (refusal != Refusal::none) return refusal_status(refusal, identity_, address_);
  if ((identity_.required_features & ~features) != 0) {
    return failed_precondition(cat("features of ", address_, ": expected also ",
                                   feature_names(identity_.required_features & ~features),
                                   ", it has 0x", std::hex, features));
  }
  return prove(credential_.key, kOpener, hello_, answer_);
}

Result<RpcPeer> OpenerHandshake::on_verdict(const Verdict& verdict) const {
  if (!has_magic(verdict)) {
    return failed_precondition(
        cat(address_, ": expected '", kMagic, "' at the start of its verdict"));
  }
  // A number that this version does not know is a refusal, too.
  const auto refusal = static_cast<Refusal>(get<uint16_t>(verdict, 4));
  if (refusal != Refusal::none) return refusal_status(refusal, identity_, address_);
  const Proof expected = prove(credential_.key, kAcceptor, hello_, answer_);
  // The opener has proved itself before, so it must not go on with an end that cannot do the same.
  if (!same(std::span(verdict).subspan(8), expected)) {
    return failed_precondition(
        cat(address_, " does not know the secret of cluster '", identity_.cluster, "'"));
  }
  return RpcPeer{.role = RpcRole::none,
                 .features = get<uint64_t>(answer_, 8),
                 .authenticated = !identity_.secret.empty(),
                 .grant = {},
                 .sealed = seal_key().has_value(),
                 .address = address_};
}

}  // namespace leat
