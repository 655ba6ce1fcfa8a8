#include "daemon/authority/x509.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <span>

#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int kSerialBits = 128;
constexpr size_t kIdInName = 16;  // hexadecimal digits: a name has 64 characters at most
constexpr std::string_view kNameBegins = "leat ", kNameGoesOn = " authority ";

struct FreePart {
  void operator()(BIGNUM* number) const { BN_free(number); }
  void operator()(ASN1_STRING* value) const { ASN1_STRING_free(value); }  // a number or a time
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(X509_REVOKED* revoked) const { X509_REVOKED_free(revoked); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
template <typename T>
using Owned = std::unique_ptr<T, FreePart>;

Status failed_to(const char* what) {
  ERR_clear_error();
  return internal_error(cat("libcrypto: expected it to ", what));
}

std::string hex_of(const ASN1_INTEGER* number) {
  const Owned<BIGNUM> value(ASN1_INTEGER_to_BN(number, nullptr));
  if (value == nullptr) return {};
  std::vector<uint8_t> bytes(static_cast<size_t>(BN_num_bytes(value.get())));
  BN_bn2bin(value.get(), bytes.data());
  return to_hex(bytes);
}

int64_t seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? ::timegm(&parts) : 0;
}

std::string common_name(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return {};
  const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at));
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

// The fields that all certificates have. The subject has the name alone.
bool set_fields(X509* made, const CertificateKey& key, int64_t from, int64_t until) {
  const Owned<BIGNUM> serial(BN_new());
  // The highest bit is 1, so that each serial has as many digits.
  return made != nullptr && serial != nullptr && X509_set_version(made, X509_VERSION_3) == 1 &&
         BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(made)) != nullptr &&
         ASN1_TIME_set(X509_getm_notBefore(made), from) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(made), until) != nullptr &&
         X509_set_pubkey(made, key.get()) == 1;
}

bool set_subject(X509* made, const std::string& name) {
  return X509_NAME_add_entry_by_NID(X509_get_subject_name(made), NID_commonName, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1;
}

// Adds extensions, each as a pair of its number and its value in the notation of x509v3_config(5).
using Extensions = std::initializer_list<std::pair<int, const char*>>;
bool add_extensions(X509* made, X509* issuer, Extensions extensions) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, made, nullptr, nullptr, 0);
  for (const auto& [number, value] : extensions) {
    const Owned<X509_EXTENSION> each(X509V3_EXT_nconf_nid(nullptr, &context, number, value));
    if (each == nullptr || X509_add_ext(made, each.get(), -1) != 1) return false;
  }
  return true;
}

bool is_address(const std::string& host) {
  std::array<uint8_t, 16> bytes;
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// Name by name and not as one text, in which a comma would begin another name.
bool add_names(X509* made, const CertificateFields& fields) {
  const Owned<GENERAL_NAMES> names(sk_GENERAL_NAME_new_null());
  const auto add = [&](int type, const std::string& text) {
    GENERAL_NAME* name = a2i_GENERAL_NAME(nullptr, nullptr, nullptr, type, text.c_str(), 0);
    if (name != nullptr && sk_GENERAL_NAME_push(names.get(), name) > 0) return true;
    GENERAL_NAME_free(name);
    return false;
  };
  if (names == nullptr || !add(GEN_URI, uri_of(fields.name))) return false;
  for (const std::string& host : fields.hosts)
    if (!add(is_address(host) ? GEN_IPADD : GEN_DNS, host)) return false;
  return X509_add1_ext_i2d(made, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

}  // namespace

void FreeX509::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }
void FreeX509::operator()(x509_st* certificate) const { X509_free(certificate); }
void FreeX509::operator()(X509_crl_st* list) const { X509_CRL_free(list); }

Result<CertificateKey> make_key() {
  CertificateKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return failed_to("make a key of ECDSA P-256");
  return key;
}

Result<Certificate> make_authority(const CertificateKey& key, const std::string& cluster,
                                   int64_t from, int64_t until) {
  Certificate made(X509_new());
  std::array<uint8_t, EVP_MAX_MD_SIZE> id;
  unsigned size = 0;
  if (!set_fields(made.get(), key, from, until) ||
      X509_pubkey_digest(made.get(), EVP_sha1(), id.data(), &size) != 1)
    return failed_to("make the certificate of an authority");
  // The identifier keeps the names of two authorities of a cluster apart.
  const std::string hex = to_hex(std::span(id).first(size));
  const std::string name = cat(kNameBegins, cluster, kNameGoesOn, hex.substr(0, kIdInName));
  if (!set_subject(made.get(), name) ||
      X509_set_issuer_name(made.get(), X509_get_subject_name(made.get())) != 1 ||
      !add_extensions(made.get(), made.get(),
                      {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                       {NID_key_usage, "critical,keyCertSign,cRLSign"},
                       {NID_subject_key_identifier, "hash"}}) ||
      X509_sign(made.get(), key.get(), EVP_sha256()) == 0) {
    return failed_to("make the certificate of an authority");
  }
  return made;
}

Result<std::string> cluster_of(const Certificate& authority, std::string_view subject) {
  const std::string name = common_name(X509_get_subject_name(authority.get()));
  const std::string end = cat(kNameGoesOn, id_of(authority).substr(0, kIdInName));
  const size_t others = kNameBegins.size() + end.size();
  const bool is_named =
      name.size() > others && name.starts_with(kNameBegins) && name.ends_with(end);
  if (!is_named || X509_check_ca(authority.get()) != 1 ||
      X509_verify(authority.get(), X509_get0_pubkey(authority.get())) != 1) {
    ERR_clear_error();
    return invalid_argument(cat(subject,
                                ": expected the certificate of an authority that `leat ca "
                                "init` has made, received one of '",
                                name, "'"));
  }
  return name.substr(kNameBegins.size(), name.size() - others);
}

bool is_server(const PeerName& name) { return name.role == "master" || name.role == "worker"; }

Result<Certificate> make_certificate(const Issuer& issuer, const CertificateKey& key,
                                     const CertificateFields& fields) {
  Certificate made(X509_new());
  X509* const by = issuer.certificate.get();
  const char* const uses = is_server(fields.name) ? "clientAuth,serverAuth" : "clientAuth";
  if (!set_fields(made.get(), key, fields.from, fields.until) ||
      !set_subject(made.get(), fields.name.name) ||
      X509_set_issuer_name(made.get(), X509_get_subject_name(by)) != 1 ||
      !add_names(made.get(), fields) ||
      !add_extensions(made.get(), by,
                      {{NID_basic_constraints, "critical,CA:FALSE"},
                       {NID_key_usage, "critical,digitalSignature"},
                       {NID_ext_key_usage, uses},
                       {NID_subject_key_identifier, "hash"},
                       {NID_authority_key_identifier, "keyid:always"}}) ||
      X509_sign(made.get(), issuer.key.get(), EVP_sha256()) == 0) {
    return failed_to("make a certificate");
  }
  return made;
}

Status check_host(const std::string& host) {
  constexpr size_t kMostHost = 253, kMostLabel = 63;
  const auto is_label = [](std::string_view label) {
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    };
    return !label.empty() && label.size() <= kMostLabel && label.front() != '-' &&
           label.back() != '-' && std::all_of(label.begin(), label.end(), fits);
  };
  // inet_pton() would not see what comes behind a zero byte.
  bool is_good = host.find('\0') == std::string::npos && is_address(host);
  if (!is_good && host.size() <= kMostHost) {
    std::string_view rest = host;
    is_good = true;
    for (size_t dot; (dot = rest.find('.')) != std::string_view::npos;
         rest = rest.substr(dot + 1)) {
      is_good = is_good && is_label(rest.substr(0, dot));
    }
    // A name that ends in a number would be taken for an address.
    is_good =
        is_good && is_label(rest) && rest.find_first_not_of("0123456789") != std::string_view::npos;
  }
  if (is_good) return {};
  return invalid_argument(cat("host: expected an IP address or a name in DNS, received '",
                              host.substr(0, kMostHost), "'"));
}

namespace {

bool add_revoked(X509_CRL* list, const Revoked& each) {
  BIGNUM* number = nullptr;
  const bool is_hex =
      BN_hex2bn(&number, each.serial.c_str()) == static_cast<int>(each.serial.size());
  const Owned<BIGNUM> owned_number(number);
  if (!is_hex || number == nullptr) return false;
  const Owned<ASN1_INTEGER> serial(BN_to_ASN1_INTEGER(number, nullptr));
  const Owned<ASN1_TIME> at(ASN1_TIME_set(nullptr, each.at));
  Owned<X509_REVOKED> revoked(X509_REVOKED_new());
  if (serial == nullptr || at == nullptr || revoked == nullptr ||
      X509_REVOKED_set_serialNumber(revoked.get(), serial.get()) != 1 ||
      X509_REVOKED_set_revocationDate(revoked.get(), at.get()) != 1 ||
      X509_CRL_add0_revoked(list, revoked.get()) != 1)
    return false;
  (void)revoked.release();
  return true;
}

bool set_list_fields(X509_CRL* list, const Issuer& issuer, int64_t number, int64_t from,
                     int64_t until) {
  const Owned<ASN1_TIME> begin(ASN1_TIME_set(nullptr, from));
  const Owned<ASN1_TIME> end(ASN1_TIME_set(nullptr, until));
  const Owned<ASN1_INTEGER> count(ASN1_INTEGER_new());
  if (list == nullptr || begin == nullptr || end == nullptr || count == nullptr) return false;
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer.certificate.get(), nullptr, nullptr, list, 0);
  const Owned<X509_EXTENSION> identifier(
      X509V3_EXT_nconf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always"));
  return identifier != nullptr && X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1 &&
         X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer.certificate.get())) == 1 &&
         X509_CRL_set1_lastUpdate(list, begin.get()) == 1 &&
         X509_CRL_set1_nextUpdate(list, end.get()) == 1 &&
         X509_CRL_add_ext(list, identifier.get(), -1) == 1 &&
         ASN1_INTEGER_set_int64(count.get(), number) == 1 &&
         X509_CRL_add1_ext_i2d(list, NID_crl_number, count.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

}  // namespace

Result<RevocationList> make_revocation_list(const Issuer& issuer, const std::vector<Revoked>& all,
                                            int64_t number, int64_t from, int64_t until) {
  RevocationList list(X509_CRL_new());
  const bool is_made =
      set_list_fields(list.get(), issuer, number, from, until) &&
      std::all_of(all.begin(), all.end(),
                  [&](const Revoked& each) { return add_revoked(list.get(), each); }) &&
      X509_CRL_sort(list.get()) == 1 &&
      X509_CRL_sign(list.get(), issuer.key.get(), EVP_sha256()) != 0;
  if (!is_made) return failed_to("make a list of revoked certificates");
  return list;
}

std::vector<Revoked> revoked_in(const RevocationList& list) {
  std::vector<Revoked> all;
  const STACK_OF(X509_REVOKED)* stack = X509_CRL_get_REVOKED(list.get());
  for (int i = 0; stack != nullptr && i < sk_X509_REVOKED_num(stack); ++i) {
    const X509_REVOKED* each = sk_X509_REVOKED_value(stack, i);
    all.push_back({hex_of(X509_REVOKED_get0_serialNumber(each)),
                   seconds_of(X509_REVOKED_get0_revocationDate(each))});
  }
  return all;
}

int64_t number_of(const RevocationList& list) {
  const Owned<ASN1_INTEGER> number(static_cast<ASN1_INTEGER*>(
      X509_CRL_get_ext_d2i(list.get(), NID_crl_number, nullptr, nullptr)));
  int64_t value = 0;
  return number != nullptr && ASN1_INTEGER_get_int64(&value, number.get()) == 1 ? value : 0;
}

bool is_of(const RevocationList& list, const Certificate& authority) {
  const bool is =
      X509_NAME_cmp(X509_CRL_get_issuer(list.get()), X509_get_subject_name(authority.get())) == 0 &&
      X509_CRL_verify(list.get(), X509_get0_pubkey(authority.get())) == 1;
  ERR_clear_error();
  return is;
}

std::string serial_of(const Certificate& certificate) {
  return hex_of(X509_get0_serialNumber(certificate.get()));
}
std::string id_of(const Certificate& certificate) {
  const ASN1_OCTET_STRING* id = X509_get0_subject_key_id(certificate.get());
  if (id == nullptr) return {};
  return to_hex({ASN1_STRING_get0_data(id), static_cast<size_t>(ASN1_STRING_length(id))});
}
int64_t from_of(const Certificate& certificate) {
  return seconds_of(X509_get0_notBefore(certificate.get()));
}
int64_t until_of(const Certificate& certificate) {
  return seconds_of(X509_get0_notAfter(certificate.get()));
}
bool belongs_to(const CertificateKey& key, const Certificate& certificate) {
  return EVP_PKEY_eq(key.get(), X509_get0_pubkey(certificate.get())) == 1;
}

bool is_p256(const CertificateKey& key) {
  std::array<char, 32> group{};
  size_t size = 0;
  int is_explicit = 1;
  return EVP_PKEY_is_a(key.get(), "EC") == 1 &&
         EVP_PKEY_get_group_name(key.get(), group.data(), group.size(), &size) == 1 &&
         std::string_view(group.data()) == "prime256v1" &&
         EVP_PKEY_get_int_param(key.get(), OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS,
                                &is_explicit) == 1 &&
         is_explicit == 0;
}

}  // namespace leat
