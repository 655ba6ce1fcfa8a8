#include "transport/seal/certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>

#include "devices/base/text.h"
#include "transport/seal/tls_context.h"

namespace leat {
namespace {

// The protocol that both ends have to agree on (ALPN), so that no other service with a certificate
// of the same authority is taken for an end of a cluster.
constexpr unsigned char kProtocol[] = {4, 'l', 'e', 'a', 't'};
constexpr long kMostChainBytes = 32L << 10;

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using OwnedBio = std::unique_ptr<BIO, Freed<BIO_free>>;
using OwnedX509 = std::unique_ptr<X509, Freed<X509_free>>;
using OwnedCrl = std::unique_ptr<X509_CRL, Freed<X509_CRL_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using OwnedStoreContext = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
using OwnedNames = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

struct OwnedStack {
  STACK_OF(X509) * stack = sk_X509_new_null();
  OwnedStack() = default;
  ~OwnedStack() { sk_X509_pop_free(stack, X509_free); }
  OwnedStack(const OwnedStack&) = delete;
  OwnedStack& operator=(const OwnedStack&) = delete;
};

OwnedBio bio_of(const std::string& text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// OpenSSL would ask for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

// Reads all blocks of one kind; there may be none. invalid_argument if one is damaged.
template <typename Owned, typename Read>
Result<std::vector<Owned>> read_all(const std::string& text, const char* what, Read read) {
  std::vector<Owned> all;
  const OwnedBio bio = bio_of(text);
  ERR_clear_error();
  while (auto* one = read(bio.get(), nullptr, no_passphrase, nullptr)) all.emplace_back(one);
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
    return invalid_argument(cat(what, ": expected PEM: ", tls_reason("it is damaged")));
  ERR_clear_error();
  return all;
}

// Reads the one key. (OpenSSL's errors for keys do not tell the end of a text from damage.)
Result<OwnedKey> read_key(const std::string& text) {
  // "-----BEGIN PRIVATE KEY-----", "-----BEGIN EC PRIVATE KEY-----".
  constexpr std::string_view kBegin = "-----BEGIN ", kKind = "PRIVATE KEY-----";
  size_t keys = 0;
  for (size_t at = text.find(kBegin); at != std::string::npos; at = text.find(kBegin, at + 1)) {
    const std::string_view line = std::string_view(text).substr(at, text.find('\n', at) - at);
    if (line.find(kKind) != std::string_view::npos) ++keys;
  }
  if (keys != 1) return invalid_argument(cat("key: expected one in PEM, received ", keys));
  const OwnedBio bio = bio_of(text);
  ERR_clear_error();
  OwnedKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  if (!key && text.find("ENCRYPTED") != std::string::npos)
    return invalid_argument("key: expected one without a passphrase");
  if (!key) return invalid_argument(cat("key: expected PEM: ", tls_reason("it is damaged")));
  return key;
}

std::string der_of(X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  std::string der(reinterpret_cast<char*>(bytes), size > 0 ? static_cast<size_t>(size) : 0);
  OPENSSL_free(bytes);
  return der;
}

Result<int64_t> seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1)
    return failed_precondition("certificate: expected a time of its end");
  return static_cast<int64_t>(::timegm(&parts));
}

// The one URI among the alternative names.
Result<PeerName> name_of(X509* certificate) {
  const OwnedNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::string uri;
  int uris = 0;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const text = name->d.uniformResourceIdentifier;
    uri.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
               static_cast<size_t>(ASN1_STRING_length(text)));
    ++uris;
  }
  if (uris != 1)
    return invalid_argument(cat("certificate: expected one URI among its alternative names, ",
                                "spiffe://CLUSTER/ROLE/NAME, received ", uris));
  return read_peer_name(uri);
}

std::string serial_of(X509* certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* digits = number == nullptr ? nullptr : BN_bn2hex(number);
  std::string text = digits == nullptr ? "" : digits;
  OPENSSL_free(digits);
  BN_free(number);
  return text;
}

// `chain` begins with the certificate and ends with a trusted one.
Result<PeerCertificate> describe(STACK_OF(X509) * chain) {
  PeerCertificate peer;
  if (sk_X509_num(chain) < 1) return failed_precondition("certificate: it has no chain");
  LEAT_ASSIGN_OR_RETURN(peer.name, name_of(sk_X509_value(chain, 0)));
  peer.serial = serial_of(sk_X509_value(chain, 0));
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* const one = sk_X509_value(chain, i);
    LEAT_ASSIGN_OR_RETURN(const int64_t ends, seconds_of(X509_get0_notAfter(one)));
    peer.expires = i == 0 ? ends : std::min(peer.expires, ends);
    peer.chain.push_back(der_of(one));
  }
  return peer;
}

// The part of the files that an error of a chain is about.
std::string_view part_of(int error) {
  switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
    case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
      return "revoked certificates: ";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return "authority: ";
    default:
      return "certificate: ";
  }
}

// Verifies a certificate, and describes it with its chain.
Result<PeerCertificate> verified(X509_STORE* store, X509* certificate, STACK_OF(X509) * others,
                                 int purpose) {
  const OwnedStoreContext context(X509_STORE_CTX_new());
  if (!context || X509_STORE_CTX_init(context.get(), store, certificate, others) != 1)
    return resource_exhausted("certificate: no memory to verify it");
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  if (X509_verify_cert(context.get()) == 1)
    return describe(X509_STORE_CTX_get0_chain(context.get()));
  const int error = X509_STORE_CTX_get_error(context.get());
  return failed_precondition(cat(part_of(error), X509_verify_cert_error_string(error)));
}

// A certificate without the name of an end is refused in the handshake, so that the peer learns it.
int check_name_too(int trusted, X509_STORE_CTX* context) {
  if (trusted != 1 || X509_STORE_CTX_get_error_depth(context) != 0) return trusted;
  if (name_of(X509_STORE_CTX_get_current_cert(context)).ok()) return 1;
  X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

Status add_authorities(X509_STORE* store, const CertificateTexts& texts) {
  LEAT_ASSIGN_OR_RETURN(const auto all,
                        read_all<OwnedX509>(texts.authority, "authority", PEM_read_bio_X509));
  int added = 0;
  for (const OwnedX509& one : all) {
    // A file with everything begins with a certificate that is no authority.
    if (X509_check_ca(one.get()) == 0) continue;
    if (X509_STORE_add_cert(store, one.get()) != 1)
      return resource_exhausted("authority: no memory for it");
    ++added;
  }
  if (added > 0) return {};
  return invalid_argument("authority: expected the certificate of an authority, received none");
}

Status add_lists(X509_STORE* store, const CertificateTexts& texts) {
  unsigned long flags = X509_V_FLAG_PARTIAL_CHAIN;
  if (!texts.revoked.empty()) {
    LEAT_ASSIGN_OR_RETURN(
        const auto lists,
        read_all<OwnedCrl>(texts.revoked, "revoked certificates", PEM_read_bio_X509_CRL));
    if (lists.empty())
      return invalid_argument("revoked certificates: expected a list, received none");
    for (const OwnedCrl& list : lists) {
      if (X509_STORE_add_crl(store, list.get()) != 1)
        return resource_exhausted("revoked certificates: no memory for the list");
    }
    flags |= X509_V_FLAG_CRL_CHECK;
  }
  X509_STORE_set_flags(store, flags);
  return {};
}

// A server: takes the protocol that a client has to offer.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in,
                    unsigned in_size, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, size, kProtocol, sizeof kProtocol, in, in_size) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

Certificates::~Certificates() { SSL_CTX_free(context_); }

Result<std::shared_ptr<const Certificates>> Certificates::read(const CertificateTexts& texts) {
  std::shared_ptr<Certificates> made(new Certificates());
  made->context_ = new_tls_context();
  SSL_CTX* const context = made->context_;
  LEAT_ASSIGN_OR_RETURN(auto chain,
                        read_all<OwnedX509>(texts.certificate, "certificate", PEM_read_bio_X509));
  if (chain.empty()) return invalid_argument("certificate: expected one in PEM, received none");
  LEAT_ASSIGN_OR_RETURN(const OwnedKey key, read_key(texts.key));
  X509* const own = chain.front().get();
  if (X509_check_private_key(own, key.get()) != 1)
    return invalid_argument("key: expected that of the certificate, received another one");
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  LEAT_RETURN_IF_ERROR(add_authorities(store, texts));
  LEAT_RETURN_IF_ERROR(add_lists(store, texts));
  const OwnedStack others;
  for (size_t i = 1; i < chain.size(); ++i) {
    // The authorities at the end of a file with everything are known to the peer.
    if (X509_self_signed(chain[i].get(), 0) == 1) continue;
    X509_up_ref(chain[i].get());
    sk_X509_push(others.stack, chain[i].get());
  }
  LEAT_ASSIGN_OR_RETURN(const PeerName name, name_of(own));
  const bool master = name.role == "master";
  auto described = verified(store, own, others.stack,
                            master ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  if (!described.ok()) return invalid_argument(described.status().message());
  made->own_ = *std::move(described);
  if (SSL_CTX_use_cert_and_key(context, own, key.get(), others.stack, 1) != 1)
    return invalid_argument(cat("certificate: ", tls_reason("OpenSSL does not take it")));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, check_name_too);
  SSL_CTX_set_max_cert_list(context, kMostChainBytes);
  if (SSL_CTX_set_alpn_protos(context, kProtocol, sizeof kProtocol) != 0) no_crypto("ALPN");
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  return std::shared_ptr<const Certificates>(std::move(made));
}

Result<PeerCertificate> Certificates::peer_of(const ssl_st* connection) {
  X509* const certificate = SSL_get0_peer_certificate(connection);
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(connection, &protocol, &size);
  if (certificate == nullptr || SSL_get_verify_result(connection) != X509_V_OK)
    return failed_precondition("TLS: the peer has shown no certificate");
  if (size != sizeof kProtocol - 1)
    return failed_precondition("TLS: the peer is no end of a cluster: expected protocol 'leat'");
  return describe(SSL_get0_verified_chain(connection));
}

Status Certificates::check(const PeerCertificate& peer) const {
  const OwnedStack others;
  OwnedX509 own;
  for (const std::string& der : peer.chain) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
    OwnedX509 one(d2i_X509(nullptr, &bytes, static_cast<long>(der.size())));
    if (!one) return failed_precondition("certificate: it is damaged");
    if (own) {
      sk_X509_push(others.stack, one.release());
    } else {
      own = std::move(one);
    }
  }
  if (!own) return failed_precondition("certificate: there is none");
  return verified(SSL_CTX_get_cert_store(context_), own.get(), others.stack,
                  X509_PURPOSE_SSL_CLIENT)
      .status();
}

}  // namespace leat
