#include "daemon/checkpoint/checkpoint_key.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <utility>

#include "devices/base/sha256.h"

namespace leat {
namespace {

constexpr std::string_view kIdInfo = "leat checkpoint key, id";
constexpr std::string_view kFileInfo = "leat checkpoint key, file ";

struct FreeKdf {
  void operator()(EVP_KDF* kdf) const { ::EVP_KDF_free(kdf); }
  void operator()(EVP_KDF_CTX* context) const { ::EVP_KDF_CTX_free(context); }
};

// OpenSSL's parameters take no constant pointers, and do not write through them.
OSSL_PARAM octets(const char* name, std::string_view bytes) {
  return ::OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

// HKDF-SHA256.
Status derive(std::string_view secret, std::string_view salt, std::string_view info,
              std::span<std::byte> out) {
  const std::unique_ptr<EVP_KDF, FreeKdf> kdf(::EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, FreeKdf> context(kdf != nullptr ? ::EVP_KDF_CTX_new(kdf.get())
                                                                     : nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {::OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                               octets(OSSL_KDF_PARAM_KEY, secret),
                               octets(OSSL_KDF_PARAM_SALT, salt), octets(OSSL_KDF_PARAM_INFO, info),
                               ::OSSL_PARAM_construct_end()};
  if (context != nullptr &&
      ::EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.data()), out.size(),
                       params) == 1)
    return {};
  return internal_error("checkpoint key: expected HKDF of libcrypto, it failed");
}

}  // namespace

Result<CheckpointKey> CheckpointKey::of(std::string secret) {
  Id id{};
  // A salt of zeros, as long as the hash, stands for none.
  LEAT_RETURN_IF_ERROR(derive(secret, std::string(kSaltBytes, '\0'), kIdInfo, id));
  return CheckpointKey(std::move(secret), id);
}

std::string CheckpointKey::text_of(const Id& id) {
  return to_hex(std::span(reinterpret_cast<const uint8_t*>(id.data()), id.size()));
}

Result<CheckpointKey::FileKey> CheckpointKey::file_key(const Salt& salt,
                                                       std::string_view role) const {
  FileKey key{};
  LEAT_RETURN_IF_ERROR(derive(secret_, {reinterpret_cast<const char*>(salt.data()), salt.size()},
                              std::string(kFileInfo) + std::string(role), key));
  return key;
}

Result<std::shared_ptr<const CheckpointKeys>> make_checkpoint_keys(
    std::span<const std::string> secrets) {
  auto keys = std::make_shared<CheckpointKeys>();
  for (const std::string& secret : secrets) {
    if (secret.empty()) continue;
    LEAT_ASSIGN_OR_RETURN(CheckpointKey key, CheckpointKey::of(secret));
    keys->push_back(std::move(key));
  }
  return std::shared_ptr<const CheckpointKeys>(std::move(keys));
}

}  // namespace leat
