// TLS 1.3 between two processes of a cluster. Either they know a common key, which is the external
// pre-shared key of RFC 8446, or each shows a certificate that the other one verifies. Each
// connection has fresh keys of its own from X25519 (with a common key: psk_dhe_ke), so that a key
// which is stolen later does not open what was recorded.
//
// Only TLS 1.3 is spoken, with one cipher suite; there are no tickets, no resumption, no early
// data, no renegotiation and no compression, and nothing that a peer asks for turns this off.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "devices/base/status.h"
#include "transport/seal/certificates.h"

namespace leat {

// A key that both ends of one connection know, and no other connection uses.
using TlsKey = std::array<uint8_t, 32>;

// HMAC-SHA256 of `text` under `secret`: how keys of one use are made from a key of many.
TlsKey derive_key(std::span<const uint8_t> secret, std::span<const uint8_t> text);

// One end of a connection. It moves no bytes itself: its owner gives it the peer's bytes and sends
// the bytes that are for the peer.
//
// A record that was changed, repeated, left out or moved makes read() fail, and the session is then
// over. A stream that ends before the peer has said its end is told by at_end(), which stays false.
// Threads: one at a time; space() and received() may be called while another thread calls write(),
// output(), sent() and say_end().
class TlsSession {
 public:
  enum class Side : uint8_t { client, server };

  // A key of AES-GCM is good for 2^24.5 records (RFC 8446, 5.5). Each end changes its own after so
  // many bytes; a write counts for at least 512, so these are at most 2^23 records, however small.
  static constexpr uint64_t kBytesOfAKey = uint64_t{4} << 30;

  // resource_exhausted if OpenSSL has no memory for it.
  static Result<std::unique_ptr<TlsSession>> create(Side side, const TlsKey& key,
                                                    uint64_t bytes_of_a_key = kBytesOfAKey);
  // The same with certificates. REQUIRES: they are not null.
  static Result<std::unique_ptr<TlsSession>> create(
      Side side, std::shared_ptr<const Certificates> certificates);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // The place for the next bytes of the peer; empty while read() has many to take. Then received()
  // tells how many were put there.
  std::span<std::byte> space();
  void received(size_t bytes) { in_end_ += bytes; }
  // Whether bytes of the peer wait for read(), which may still be less than a record.
  bool has_input() const;

  // The bytes for the peer, and how many of them were sent.
  std::span<const std::byte> output() const { return std::span(out_).subspan(out_begin_); }
  void sent(size_t bytes);
  // Gives all of them away, for an owner that sends while it reads. REQUIRES: sent() is not used.
  std::vector<std::byte> take_output() { return std::exchange(out_, {}); }

  // Goes on with the handshake as far as the input allows. failed_precondition if the peer does not
  // know the key, shows no certificate that is trusted, or speaks anything else; the output then
  // has an alert for it. Call it first, and after each received().
  Status shake_hands();
  // The handshake is done. A peer has proved the key, or a server the key of its certificate. A
  // server has verified its client's, too; a client learns with the first read() whether the server
  // accepts its own.
  bool established() const { return established_; }
  // The session has certificates, in place of a key.
  bool has_certificates() const { return certificates_ != nullptr; }
  // The peer's certificate. failed_precondition if it does not name an end of a cluster. REQUIRES:
  // established() and has_certificates().
  Result<PeerCertificate> peer_certificate() const;

  // Takes plaintext. Returns how many bytes, 0 if a whole record has not come yet or at_end().
  // failed_precondition if the bytes are not what the peer sent. REQUIRES: established().
  Result<size_t> read(std::span<std::byte> plaintext);
  // The peer has said that nothing more comes.
  bool at_end() const { return at_end_; }
  // Adds records with all of `plaintext` to the output. REQUIRES: established().
  Status write(std::span<const std::byte> plaintext);
  // Adds this end's word that nothing more comes. Only the first call does; none reads the input.
  void say_end();

 private:
  struct Methods;
  TlsSession(Side side, const TlsKey& key, std::shared_ptr<const Certificates> certificates,
             uint64_t bytes_of_a_key)
      : side_(side),
        key_(key),
        certificates_(std::move(certificates)),
        bytes_of_a_key_(bytes_of_a_key) {}
  Status open(ssl_ctx_st* context);
  // The reason of the last failed call, from OpenSSL's list of errors.
  Status failure(std::string_view doing) const;

  const Side side_;
  const TlsKey key_;
  const std::shared_ptr<const Certificates> certificates_;  // null: the session has a key
  const uint64_t bytes_of_a_key_;
  ssl_st* ssl_ = nullptr;
  bool established_ = false;
  bool at_end_ = false;
  // Bytes since the keys of this direction were last changed.
  uint64_t under_these_keys_ = 0;
  // The bytes [in_begin_, in_end_) have come and were not taken.
  std::vector<std::byte> in_;
  size_t in_begin_ = 0, in_end_ = 0;
  // The bytes from out_begin_ on were not sent.
  std::vector<std::byte> out_;
  size_t out_begin_ = 0;
};

}  // namespace leat
