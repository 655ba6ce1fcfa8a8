// The keys, certificates and lists of revoked certificates of an authority, made and read with
// libcrypto. docs/certificates.md has the fields of the certificates.
//
// Times are in seconds since 1970. Functions that read take a `subject`, usually a path, with which
// their messages begin; their errors are invalid_argument. Threads: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "transport/seal/peer_name.h"

struct evp_pkey_st;
struct x509_st;
struct X509_crl_st;

namespace leat {

struct FreeX509 {
  void operator()(evp_pkey_st* key) const;
  void operator()(x509_st* certificate) const;
  void operator()(X509_crl_st* list) const;
};
// A private key of ECDSA P-256, or only its public half.
using CertificateKey = std::unique_ptr<evp_pkey_st, FreeX509>;
using Certificate = std::unique_ptr<x509_st, FreeX509>;
using RevocationList = std::unique_ptr<X509_crl_st, FreeX509>;

Result<CertificateKey> make_key();
// Whether a key is one of the curve P-256, by its name and not by parameters of its own.
bool is_p256(const CertificateKey& key);

// A certificate that signs itself and others of this cluster.
Result<Certificate> make_authority(const CertificateKey& key, const std::string& cluster,
                                   int64_t from, int64_t until);
// The cluster in its name; invalid_argument if it is not the certificate of an authority that
// make_authority() may have made.
Result<std::string> cluster_of(const Certificate& authority, std::string_view subject);

// An authority with its key, which both outlive the call.
struct Issuer {
  const Certificate& certificate;
  const CertificateKey& key;
};

struct CertificateFields {
  PeerName name;
  // Names and addresses of its machine.
  std::vector<std::string> hosts;
  int64_t from = 0;
  int64_t until = 0;
};
// Whether it may be a server of TLS: a master or a worker, for its HTTP port.
bool is_server(const PeerName& name);
// A certificate for `key`, which may be public alone. REQUIRES: name and hosts were checked.
Result<Certificate> make_certificate(const Issuer& issuer, const CertificateKey& key,
                                     const CertificateFields& fields);
// invalid_argument unless it is an address of IPv4 or IPv6, or a name in DNS without wildcards.
Status check_host(const std::string& host);

// A certificate that is refused although it has not expired.
struct Revoked {
  std::string serial;
  int64_t at = 0;
};
// `number` grows from list to list.
Result<RevocationList> make_revocation_list(const Issuer& issuer, const std::vector<Revoked>& all,
                                            int64_t number, int64_t from, int64_t until);
std::vector<Revoked> revoked_in(const RevocationList& list);
int64_t number_of(const RevocationList& list);
// Whether this authority has signed the list.
bool is_of(const RevocationList& list, const Certificate& authority);

// 32 lower-case hexadecimal digits for those of make_certificate().
std::string serial_of(const Certificate& certificate);
// Its key's identifier, 40 lower-case hexadecimal digits, which tells authorities apart.
std::string id_of(const Certificate& certificate);
int64_t from_of(const Certificate& certificate);
int64_t until_of(const Certificate& certificate);
bool belongs_to(const CertificateKey& key, const Certificate& certificate);

// In PEM form; keys as PKCS #8.
std::string pem_of(const CertificateKey& key);
std::string pem_of(const Certificate& certificate);
std::string pem_of(const RevocationList& list);
// Read each block of a text in PEM form. All of them have to be of this kind and whole.
Result<std::vector<CertificateKey>> read_keys(std::string_view text, std::string_view subject);
Result<std::vector<Certificate>> read_certificates(std::string_view text, std::string_view subject);
Result<std::vector<RevocationList>> read_revocation_lists(std::string_view text,
                                                          std::string_view subject);
// Reads a certificate request (PKCS #10) and returns its public key, if the holder of the private
// key has signed the request. Whatever else the request asks for is left out.
Result<CertificateKey> read_request(std::string_view text, std::string_view subject);

}  // namespace leat
