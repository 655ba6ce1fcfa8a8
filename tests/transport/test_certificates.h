// A small authority for the tests of certificates.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "transport/seal/certificates.h"

struct evp_pkey_st;
struct x509_st;

namespace leat {

// The parts of a certificate in which tests differ from a good one.
struct TestCertificate {
  std::string uri;
  std::chrono::seconds begins{-60};
  std::chrono::seconds ends{3600};
  // As in OpenSSL's configuration files; empty: none.
  std::string usage = "clientAuth,serverAuth";
  std::string names = {};  // further alternative names: "DNS:h,URI:x"
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name = "an authority of tests");
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  std::string certificate() const;
  // A certificate with its key and this authority, in PEM.
  CertificateTexts issue(const TestCertificate& wanted) const;
  CertificateTexts issue_to(const std::string& uri) const { return issue({.uri = uri}); }
  // A list with the numbers of these certificates.
  std::string revoke(const std::vector<std::string>& certificates) const;

 private:
  evp_pkey_st* key_;
  x509_st* own_;
};

// Certificates that never change, from these texts.
std::shared_ptr<const CurrentCertificates> current(const CertificateTexts& texts);

}  // namespace leat
