#include "transport/seal/tls_session.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "transport/seal/tls_context.h"

namespace leat {
namespace {

constexpr std::string_view kPskIdentity = "leat";
constexpr unsigned char kSuite[2] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
// Four records and their headers.
constexpr size_t kInput = 4 * (16'384 + 64);
constexpr uint64_t kLeastCounted = 512;

}  // namespace

TlsKey derive_key(std::span<const uint8_t> secret, std::span<const uint8_t> text) {
  TlsKey key{};
  unsigned length = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), text.data(), text.size(),
           key.data(), &length) == nullptr) {
    no_crypto("HMAC-SHA256");
  }
  return key;
}

// The functions that OpenSSL calls.
struct TlsSession::Methods {
  static TlsSession& of(const SSL* ssl) { return *static_cast<TlsSession*>(SSL_get_app_data(ssl)); }

  // The key in the form of a session, which the caller owns.
  static SSL_SESSION* session(SSL* ssl) {
    SSL_SESSION* session = SSL_SESSION_new();
    const TlsKey& key = of(ssl).key_;
    const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kSuite);
    if (session != nullptr && suite != nullptr &&
        SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
        SSL_SESSION_set_cipher(session, suite) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
      return session;
    }
    SSL_SESSION_free(session);
    return nullptr;
  }
  static int use_key(SSL* ssl, const EVP_MD* digest, const unsigned char** id, size_t* id_bytes,
                     SSL_SESSION** out) {
    *out = nullptr;
    // A server that asks again for another hash has no use for the key.
    if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
    *id = reinterpret_cast<const unsigned char*>(kPskIdentity.data());
    *id_bytes = kPskIdentity.size();
    *out = session(ssl);
    return *out != nullptr ? 1 : 0;
  }
  static int find_key(SSL* ssl, const unsigned char* id, size_t id_bytes, SSL_SESSION** out) {
    const bool known = id_bytes == kPskIdentity.size() &&
                       std::memcmp(id, kPskIdentity.data(), kPskIdentity.size()) == 0;
    *out = known ? session(ssl) : nullptr;
    return known && *out == nullptr ? 0 : 1;
  }

  static int read(BIO* bio, char* data, int size) {
    auto& self = *static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const size_t n = std::min(static_cast<size_t>(size), self.in_end_ - self.in_begin_);
    if (n == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(data, self.in_.data() + self.in_begin_, n);
    self.in_begin_ += n;
    return static_cast<int>(n);
  }
  static int write(BIO* bio, const char* data, int size) {
    auto& self = *static_cast<TlsSession*>(BIO_get_data(bio));
    const auto bytes = std::as_bytes(std::span(data, static_cast<size_t>(size)));
    self.out_.insert(self.out_.end(), bytes.begin(), bytes.end());
    return size;
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  // One for the process, as OpenSSL has it. It is never freed.
  static BIO_METHOD* bio() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "leat");
      if (made == nullptr) no_crypto("memory for a BIO");
      BIO_meth_set_read(made, read);
      BIO_meth_set_write(made, write);
      BIO_meth_set_ctrl(made, control);
      return made;
    }();
    return method;
  }
  // Of all sessions with a key. It is never freed.
  static SSL_CTX* context_of_keys() {
    static SSL_CTX* const context = [] {
      SSL_CTX* made = new_tls_context();
      SSL_CTX_set_psk_use_session_callback(made, use_key);
      SSL_CTX_set_psk_find_session_callback(made, find_key);
      return made;
    }();
    return context;
  }
};

Result<std::unique_ptr<TlsSession>> TlsSession::create(Side side, const TlsKey& key,
                                                       uint64_t bytes_of_a_key) {
  std::unique_ptr<TlsSession> session(new TlsSession(side, key, nullptr, bytes_of_a_key));
  LEAT_RETURN_IF_ERROR(session->open(Methods::context_of_keys()));
  // A server that shows a certificate in place of the key is refused: no authority is trusted.
  SSL_set_verify(session->ssl_, side == Side::client ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  return session;
}

Result<std::unique_ptr<TlsSession>> TlsSession::create(
    Side side, std::shared_ptr<const Certificates> certificates) {
  SSL_CTX* const context = certificates->context();
  std::unique_ptr<TlsSession> session(
      new TlsSession(side, TlsKey{}, std::move(certificates), kBytesOfAKey));
  LEAT_RETURN_IF_ERROR(session->open(context));
  return session;
}

Result<PeerCertificate> TlsSession::peer_certificate() const { return Certificates::peer_of(ssl_); }

Status TlsSession::open(ssl_ctx_st* context) {
  ssl_ = SSL_new(context);
  BIO* bio = BIO_new(Methods::bio());
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    return resource_exhausted("TLS: no memory for a connection");
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_app_data(ssl_, this);
  side_ == Side::client ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  in_.resize(kInput);
  return {};
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

std::span<std::byte> TlsSession::space() {
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
  if (in_end_ == in_.size()) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  return std::span(in_).subspan(in_end_);
}

// OpenSSL reads ahead, so that bytes may also be in its own buffer.
bool TlsSession::has_input() const { return in_end_ > in_begin_ || SSL_has_pending(ssl_) == 1; }

void TlsSession::sent(size_t bytes) {
  out_begin_ += bytes;
  if (out_begin_ < out_.size()) return;
  out_.clear();
  out_begin_ = 0;
}

Status TlsSession::failure(std::string_view doing) const {
  std::string reason = tls_reason("the peer broke the protocol");
  const long verified = certificates_ ? SSL_get_verify_result(ssl_) : X509_V_OK;
  if (verified != X509_V_OK)
    reason = cat("the peer's certificate: ", X509_verify_cert_error_string(verified));
  return failed_precondition(cat("TLS: ", doing, ": ", reason));
}

Status TlsSession::shake_hands() {
  if (established_) return {};
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_);
  if (done == 1) {
    // The key counts, and nothing else: a handshake that did not use it proves nothing.
    if (!certificates_ && SSL_session_reused(ssl_) != 1)
      return failed_precondition("TLS: the peer has not used the key");
    established_ = true;
    return {};
  }
  const int error = SSL_get_error(ssl_, done);
  return error == SSL_ERROR_WANT_READ ? Status() : failure("handshake");
}

Result<size_t> TlsSession::read(std::span<std::byte> plaintext) {
  size_t got = 0;
  if (plaintext.empty() || at_end_) return got;
  ERR_clear_error();
  const int done = SSL_read_ex(ssl_, plaintext.data(), plaintext.size(), &got);
  if (done == 1) return got;
  switch (SSL_get_error(ssl_, done)) {
    case SSL_ERROR_WANT_READ:
      return size_t{0};
    case SSL_ERROR_ZERO_RETURN:
      at_end_ = true;
      return size_t{0};
    default:
      return failure("a record of the peer");
  }
}

Status TlsSession::write(std::span<const std::byte> plaintext) {
  if (plaintext.empty()) return {};
  ERR_clear_error();
  if (under_these_keys_ >= bytes_of_a_key_) {
    if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return failure("new keys");
    under_these_keys_ = 0;
  }
  size_t written = 0;
  // The output takes everything, so one call writes all.
  if (SSL_write_ex(ssl_, plaintext.data(), plaintext.size(), &written) != 1) {
    return failure("writing");
  }
  under_these_keys_ += std::max<uint64_t>(written, kLeastCounted);
  return {};
}

void TlsSession::say_end() {
  // A second call of SSL_shutdown() would read the peer's end, beside a thread that receives.
  if ((SSL_get_shutdown(ssl_) & SSL_SENT_SHUTDOWN) != 0) return;
  ERR_clear_error();
  static_cast<void>(SSL_shutdown(ssl_));
}

}  // namespace leat
