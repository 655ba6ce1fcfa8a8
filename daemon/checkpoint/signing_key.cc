#include "daemon/checkpoint/signing_key.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "daemon/base/private_file.h"
#include "devices/base/files.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

constexpr size_t kKeyBytes = 32, kSignatureBytes = 64;
constexpr uint64_t kKeyFileBytes = 4096;
// Stands before the text that is signed, so that no signature of something else is one of a
// manifest.
constexpr std::string_view kSignedAs = "leat checkpoint manifest 1\n";

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreePublic {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, FreeDigest>;
using PublicKey = std::unique_ptr<EVP_PKEY, FreePublic>;

const uint8_t* bytes_of_text(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

Result<std::string> hex_of_public(const EVP_PKEY* key, const std::string& subject) {
  std::array<uint8_t, kKeyBytes> raw{};
  size_t size = raw.size();
  if (EVP_PKEY_id(key) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key, raw.data(), &size) != 1 || size != raw.size()) {
    return invalid_argument(cat("'", subject, "': expected a key of Ed25519, received another"));
  }
  return to_hex(raw);
}

// The text of the file of a public key: "secret.pub" beside "secret.key".
std::string public_path(const std::string& path) {
  const std::string base = path.ends_with(".key") ? path.substr(0, path.size() - 4) : path;
  return base + ".pub";
}

Status failed_to(const std::string& path, const char* what) {
  const std::string text = cat("'", path, "': ", what, ": ", std::strerror(errno));
  return errno == ENOSPC || errno == EDQUOT ? resource_exhausted(text) : unavailable(text);
}

}  // namespace

void SigningKey::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

Result<std::shared_ptr<const SigningKey>> SigningKey::of(Key key, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(std::string own, hex_of_public(key.get(), path));
  return std::shared_ptr<const SigningKey>(new SigningKey(std::move(key), std::move(own)));
}

Result<std::shared_ptr<const SigningKey>> SigningKey::read(const std::string& path) {
  // Non-blocking, because opening a pipe would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file) return failed_to(path, "open");
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return invalid_argument(cat("'", path, "': expected a regular file"));
  if ((info.st_mode & 077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", info.st_mode & 07777u);
    return invalid_argument(cat("'", path, "': expected a key that its owner alone may read ",
                                "(chmod 0600), received mode ", mode));
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return invalid_argument(cat("'", path, "': expected a key of user ", ::geteuid(),
                                " or of root, received one of user ", info.st_uid));
  }
  LEAT_ASSIGN_OR_RETURN(const Bytes text, read_file(real_files(), path, kKeyFileBytes));
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Key key(bio == nullptr ? nullptr : PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (key == nullptr)
    return invalid_argument(cat("'", path, "': expected a private key in PEM form"));
  return of(std::move(key), path);
}

// If another process was faster, its key is then taken.
Status SigningKey::make(const std::string& path) {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  const Bio bio(BIO_new(BIO_s_mem()));
  if (key == nullptr || bio == nullptr ||
      PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return internal_error("libcrypto: expected it to make a key of Ed25519");
  }
  char* data = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio.get(), &data));
  return write_private_file(path, {data, size}, IfThere::keep);
}

Result<std::shared_ptr<const SigningKey>> SigningKey::open_or_make(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(path));
  if (!there) LEAT_RETURN_IF_ERROR(make(path).while_doing("making the key that signs checkpoints"));
  LEAT_ASSIGN_OR_RETURN(auto key, read(path));
  const std::string line = key->public_key() + "\n";
  const auto bytes = std::as_bytes(std::span(line));
  const auto before = read_file(real_files(), public_path(path), kKeyFileBytes);
  if (!before.ok() || !std::equal(before->begin(), before->end(), bytes.begin(), bytes.end()))
    LEAT_RETURN_IF_ERROR(write_file_atomically(real_files(), public_path(path), bytes));
  return key;
}

Result<std::string> SigningKey::sign(std::string_view text) const {
  const std::string all = cat(kSignedAs, text);
  const DigestContext context(EVP_MD_CTX_new());
  std::array<uint8_t, kSignatureBytes> signature{};
  size_t size = signature.size();
  // Ed25519 hashes the text itself, so that no digest is named.
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &size, bytes_of_text(all), all.size()) != 1 ||
      size != signature.size()) {
    return internal_error("libcrypto: expected it to sign a manifest");
  }
  return to_hex(signature);
}

Status check_signature(std::string_view text, const std::string& public_key,
                       const std::string& signature, std::string_view subject) {
  std::array<uint8_t, kKeyBytes> raw{};
  std::array<uint8_t, kSignatureBytes> value{};
  if (!from_hex(public_key, raw)) {
    return invalid_argument(cat(subject, ": expected a public key of ", 2 * kKeyBytes,
                                " hexadecimal digits, received '", public_key, "'"));
  }
  if (!from_hex(signature, value)) {
    return invalid_argument(cat(subject, ": expected a signature of ", 2 * kSignatureBytes,
                                " hexadecimal digits, received ", signature.size(), ": '",
                                signature, "'"));
  }
  const PublicKey key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw.data(), raw.size()));
  const DigestContext context(EVP_MD_CTX_new());
  const std::string all = cat(kSignedAs, text);
  if (key != nullptr && context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestVerify(context.get(), value.data(), value.size(), bytes_of_text(all), all.size()) ==
          1) {
    return {};
  }
  return invalid_argument(cat(subject, ": expected a signature of its text by key ", public_key,
                              ", received one of another text or key: ", signature));
}

Result<std::string> read_public_key(const std::string& key_or_path) {
  std::array<uint8_t, kKeyBytes> raw{};
  if (from_hex(key_or_path, raw)) return key_or_path;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(real_files(), key_or_path, kKeyFileBytes));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (text.ends_with('\n')) text.pop_back();
  if (from_hex(text, raw)) return text;
  const Bio bio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  const PublicKey key(bio == nullptr ? nullptr
                                     : PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr));
  if (key != nullptr) return hex_of_public(key.get(), key_or_path);
  return invalid_argument(cat("'", key_or_path, "': expected a public key of Ed25519, as ",
                              2 * kKeyBytes, " hexadecimal digits or in PEM form"));
}

}  // namespace leat
