#include "daemon/checkpoint/prefix_hash.h"

#include <openssl/evp.h>

#include <algorithm>

#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kPrefixPiece = 1 << 20;

Status no_sha256() { return internal_error("libcrypto: expected it to compute a SHA-256"); }

}  // namespace

void PrefixHash::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

PrefixHash::PrefixHash(Files& files, std::string path)
    : files_(files), path_(std::move(path)), context_(EVP_MD_CTX_new()) {}

Result<std::string> PrefixHash::until(uint64_t bytes) {
  if (context_ == nullptr) return no_sha256();
  if (bytes < hashed_) hashed_ = 0;
  if (hashed_ == 0 && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1)
    return no_sha256();
  if (bytes > hashed_) {
    LEAT_ASSIGN_OR_RETURN(const auto file, files_.open(path_));
    if (file->size() < bytes) {
      return unavailable(
          cat("'", path_, "': expected at least ", bytes, " bytes, received ", file->size()));
    }
    Bytes piece;
    while (hashed_ < bytes) {
      piece.resize(std::min(kPrefixPiece, bytes - hashed_));
      LEAT_RETURN_IF_ERROR(file->read(hashed_, piece));
      if (EVP_DigestUpdate(context_.get(), piece.data(), piece.size()) != 1) return no_sha256();
      hashed_ += piece.size();
    }
  }
  // A copy is finished, so that the hash can go on.
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  Sha256Digest digest{};
  if (copy == nullptr || EVP_MD_CTX_copy_ex(copy.get(), context_.get()) != 1 ||
      EVP_DigestFinal_ex(copy.get(), digest.data(), nullptr) != 1) {
    return no_sha256();
  }
  return to_hex(digest);
}

}  // namespace leat
