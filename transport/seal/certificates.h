// The certificates of one end of TLS: the one that it shows, and the authorities that it trusts.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/status.h"
#include "transport/seal/peer_name.h"

// A type of OpenSSL, whose headers only the .cc files include.
struct ssl_ctx_st;
struct ssl_st;

namespace leat {

// The contents of PEM files. One file may have all of them: each reader takes the blocks of its
// kind.
struct CertificateTexts {
  std::string certificate;  // with the intermediate ones, the own one first
  std::string key;          // never printed or logged
  std::string authority;    // the trusted authorities
  // Lists of revoked certificates, one of each authority that has issued certificates of ends;
  // empty: nothing is looked up. The certificates of authorities are not looked up: one that is
  // withdrawn has to leave `authority`.
  std::string revoked;
};

// A certificate whose chain was verified.
struct PeerCertificate {
  PeerName name;
  // The certificate's own number, in hexadecimal digits: "1F00C2".
  std::string serial;
  // The first end of a time in its chain, in seconds since 1970.
  int64_t expires = 0;
  // From the certificate to the trusted one, in DER, for Certificates::check().
  std::vector<std::string> chain;
};

// Immutable: new files make new ones.
// Threads: any.
class Certificates {
 public:
  // invalid_argument, with the part that is wrong: a text is no PEM, the key is not that of the
  // certificate, the certificate has no PeerName or has expired, or its own authorities and lists
  // do not trust it.
  static Result<std::shared_ptr<const Certificates>> read(const CertificateTexts& texts);
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  // The certificate of this end.
  const PeerCertificate& own() const { return own_; }
  // Verifies a certificate once more, now and against these authorities and lists.
  // failed_precondition with the reason.
  Status check(const PeerCertificate& peer) const;

  // The peer of a connection. failed_precondition if its certificate has no PeerName. REQUIRES: the
  // handshake is done.
  static Result<PeerCertificate> peer_of(const ssl_st* connection);
  ssl_ctx_st* context() const { return context_; }

 private:
  Certificates() = default;

  ssl_ctx_st* context_ = nullptr;
  PeerCertificate own_;
};

// The certificates of the moment: a daemon that reads its files again puts new ones here, and
// connections that follow use them.
// Threads: any.
class CurrentCertificates {
 public:
  explicit CurrentCertificates(std::shared_ptr<const Certificates> first)
      : certificates_(std::move(first)) {}

  std::shared_ptr<const Certificates> get() const {
    const std::lock_guard lock(mutex_);
    return certificates_;
  }
  void set(std::shared_ptr<const Certificates> certificates) {
    const std::lock_guard lock(mutex_);
    certificates_ = std::move(certificates);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Certificates> certificates_;
};

}  // namespace leat
