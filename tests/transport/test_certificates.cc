#include "tests/transport/test_certificates.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "devices/base/text.h"
#include "tests/catch.h"

namespace leat {
namespace {

template <typename Write>
std::string pem_of(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  REQUIRE(write(bio) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string pem_of_certificate(X509* certificate) {
  return pem_of([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

EVP_PKEY* new_key() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  REQUIRE(key != nullptr);
  return key;
}

void extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
  REQUIRE(extension != nullptr);
  REQUIRE(X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

X509* new_certificate(const std::string& name, EVP_PKEY* key, std::chrono::seconds begins,
                      std::chrono::seconds ends) {
  X509* made = X509_new();
  X509_set_version(made, X509_VERSION_3);
  uint64_t number = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made), number | 1);
  X509_gmtime_adj(X509_getm_notBefore(made), begins.count());
  X509_gmtime_adj(X509_getm_notAfter(made), ends.count());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(made, key);
  return made;
}

X509* read_certificate(const std::string& text) {
  BIO* bio = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  REQUIRE(certificate != nullptr);
  return certificate;
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name)
    : key_(new_key()),
      own_(new_certificate(name, key_, std::chrono::hours(-1), std::chrono::hours(1))) {
  X509_set_issuer_name(own_, X509_get_subject_name(own_));
  extend(own_, own_, NID_basic_constraints, "critical,CA:TRUE");
  extend(own_, own_, NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(own_, own_, NID_subject_key_identifier, "hash");
  REQUIRE(X509_sign(own_, key_, EVP_sha256()) > 0);
}

TestAuthority::~TestAuthority() {
  X509_free(own_);
  EVP_PKEY_free(key_);
}

std::string TestAuthority::certificate() const { return pem_of_certificate(own_); }

CertificateTexts TestAuthority::issue(const TestCertificate& wanted) const {
  EVP_PKEY* const key = new_key();
  X509* const made = new_certificate("an end", key, wanted.begins, wanted.ends);
  X509_set_issuer_name(made, X509_get_subject_name(own_));
  extend(made, own_, NID_basic_constraints, "critical,CA:FALSE");
  extend(made, own_, NID_subject_key_identifier, "hash");
  extend(made, own_, NID_authority_key_identifier, "keyid:always");
  std::string names = wanted.uri.empty() ? "" : cat("URI:", wanted.uri);
  if (!wanted.names.empty()) names += cat(names.empty() ? "" : ",", wanted.names);
  if (!names.empty()) extend(made, own_, NID_subject_alt_name, names);
  if (!wanted.usage.empty()) extend(made, own_, NID_ext_key_usage, wanted.usage);
  REQUIRE(X509_sign(made, key_, EVP_sha256()) > 0);
  CertificateTexts texts;
  texts.certificate = pem_of_certificate(made);
  texts.key = pem_of([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  texts.authority = certificate();
  X509_free(made);
  EVP_PKEY_free(key);
  return texts;
}

std::string TestAuthority::revoke(const std::vector<std::string>& certificates) const {
  X509_CRL* const list = X509_CRL_new();
  X509_CRL_set_version(list, X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list, X509_get_subject_name(own_));
  ASN1_TIME* const time = X509_gmtime_adj(nullptr, -60);
  X509_CRL_set1_lastUpdate(list, time);
  for (const std::string& text : certificates) {
    X509* const certificate = read_certificate(text);
    X509_REVOKED* const revoked = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(revoked, X509_get_serialNumber(certificate));
    X509_REVOKED_set_revocationDate(revoked, time);
    X509_CRL_add0_revoked(list, revoked);
    X509_free(certificate);
  }
  X509_gmtime_adj(time, 3600);
  X509_CRL_set1_nextUpdate(list, time);
  ASN1_TIME_free(time);
  REQUIRE(X509_CRL_sign(list, key_, EVP_sha256()) > 0);
  std::string text = pem_of([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list); });
  X509_CRL_free(list);
  return text;
}

std::shared_ptr<const CurrentCertificates> current(const CertificateTexts& texts) {
  auto read = Certificates::read(texts);
  INFO(read.status());
  REQUIRE(read.ok());
  return std::make_shared<CurrentCertificates>(*std::move(read));
}

}  // namespace leat
