// The forms in which x509.h writes and reads files.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>

#include "daemon/authority/x509.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr const char* kKey = "private key (PKCS #8)";
constexpr const char* kCertificate = "certificate";
constexpr const char* kList = "list of revoked certificates";
constexpr const char* kRequest = "certificate request (PKCS #10)";

struct FreeForm {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(PKCS8_PRIV_KEY_INFO* key) const { PKCS8_PRIV_KEY_INFO_free(key); }
  void operator()(X509_REQ* request) const { X509_REQ_free(request); }
};
template <typename T>
using Form = std::unique_ptr<T, FreeForm>;

// A block of a text in PEM form. Its destructor overwrites the bytes, which may be a key's.
class PemBlock {
 public:
  PemBlock() = default;
  ~PemBlock() {
    OPENSSL_free(name_);
    OPENSSL_free(header_);
    OPENSSL_clear_free(data_, static_cast<size_t>(size_));
  }
  PemBlock(const PemBlock&) = delete;
  PemBlock& operator=(const PemBlock&) = delete;

  bool read(BIO* bio) { return PEM_read_bio(bio, &name_, &header_, &data_, &size_) == 1; }
  std::string_view name() const { return name_; }
  // Takes all of the bytes with a function of libcrypto; null if they are something else.
  template <typename Owner, typename T>
  Owner parse(T* (*function)(T**, const unsigned char**, long)) const {
    const unsigned char* at = data_;
    Owner made(header_[0] == '\0' ? function(nullptr, &at, size_) : nullptr);
    return made == nullptr || at == data_ + size_ ? std::move(made) : Owner();
  }

 private:
  char* name_ = nullptr;
  char* header_ = nullptr;
  unsigned char* data_ = nullptr;
  long size_ = 0;
};

Status damaged(std::string_view subject, const char* what, std::string_view received) {
  ERR_clear_error();
  return invalid_argument(
      cat(subject, ": expected each block in PEM form to be a ", what, ", received ", received));
}

// Reads all blocks. `parse` makes an item of a block, or null.
template <typename T, typename Parse>
Result<std::vector<T>> read_blocks(std::string_view text, std::string_view subject,
                                   const char* what, Parse parse) {
  const Form<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  std::vector<T> items;
  for (;;) {
    PemBlock block;
    if (bio == nullptr || !block.read(bio.get())) {
      const unsigned long error = ERR_peek_last_error();
      const bool is_end =
          ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
      if (!is_end) return damaged(subject, what, "one that is damaged");
      if (items.empty()) return damaged(subject, what, "none");
      ERR_clear_error();
      return items;
    }
    T item = parse(block);
    if (item == nullptr)
      return damaged(subject, what,
                     cat("a '", block.name(), "' that is damaged or something else"));
    items.push_back(std::move(item));
  }
}

// Whether the halves of a key belong together.
bool is_pair(const CertificateKey& key) {
  const Form<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new(key.get(), nullptr));
  return context != nullptr && EVP_PKEY_pairwise_check(context.get()) == 1;
}

// Writes with a function of libcrypto.
template <typename Write>
std::string written(Write write) {
  const Form<BIO> bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return {};
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

std::string pem_of(const CertificateKey& key) {
  return written([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}
std::string pem_of(const Certificate& certificate) {
  return written([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); });
}
std::string pem_of(const RevocationList& list) {
  return written([&](BIO* bio) { return PEM_write_bio_X509_CRL(bio, list.get()); });
}

Result<std::vector<CertificateKey>> read_keys(std::string_view text, std::string_view subject) {
  return read_blocks<CertificateKey>(text, subject, kKey, [](const PemBlock& block) {
    if (block.name() != PEM_STRING_PKCS8INF) return CertificateKey();
    const auto info = block.parse<Form<PKCS8_PRIV_KEY_INFO>>(d2i_PKCS8_PRIV_KEY_INFO);
    CertificateKey key(info == nullptr ? nullptr : EVP_PKCS82PKEY(info.get()));
    return key != nullptr && is_p256(key) && is_pair(key) ? std::move(key) : CertificateKey();
  });
}

Result<std::vector<Certificate>> read_certificates(std::string_view text,
                                                   std::string_view subject) {
  return read_blocks<Certificate>(text, subject, kCertificate, [](const PemBlock& block) {
    return block.name() == PEM_STRING_X509 ? block.parse<Certificate>(d2i_X509) : Certificate();
  });
}

Result<std::vector<RevocationList>> read_revocation_lists(std::string_view text,
                                                          std::string_view subject) {
  return read_blocks<RevocationList>(text, subject, kList, [](const PemBlock& block) {
    return block.name() == PEM_STRING_X509_CRL ? block.parse<RevocationList>(d2i_X509_CRL)
                                               : RevocationList();
  });
}

Result<CertificateKey> read_request(std::string_view text, std::string_view subject) {
  using Request = Form<X509_REQ>;
  LEAT_ASSIGN_OR_RETURN(
      const auto requests, read_blocks<Request>(text, subject, kRequest, [](const PemBlock& block) {
        const bool is_named =
            block.name() == PEM_STRING_X509_REQ || block.name() == PEM_STRING_X509_REQ_OLD;
        return is_named ? block.parse<Request>(d2i_X509_REQ) : Request();
      }));
  if (requests.size() != 1)
    return damaged(subject, kRequest, cat(requests.size(), " of them, expected one"));
  CertificateKey key(X509_REQ_get_pubkey(requests[0].get()));
  if (key == nullptr || !is_p256(key)) {
    ERR_clear_error();
    return invalid_argument(
        cat(subject, ": expected the request of a key of ECDSA P-256, received another"));
  }
  if (X509_REQ_verify(requests[0].get(), key.get()) != 1) {
    ERR_clear_error();
    return invalid_argument(cat(subject,
                                ": expected a request that the holder of its key has "
                                "signed, received one with another signature"));
  }
  return key;
}

}  // namespace leat
