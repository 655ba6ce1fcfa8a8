// The key with which a master signs the manifests of checkpoints, so that others can tell that a
// checkpoint is what a job of this master has made. The key stays in the master: runners write
// parts, and the master, which commits the checkpoint, signs its manifest.
//
// Ed25519 of libcrypto (RFC 8032). Equal texts give equal signatures.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "devices/base/status.h"

struct evp_pkey_st;

namespace leat {

// Threads: any.
class SigningKey {
 public:
  // Reads the private key of a PEM file (PKCS #8), or makes one there if the path does not exist:
  // mode 0600, whole or not at all, also if another process makes one at the same time. The public
  // key is then in a file beside it, `path` with ".pub" in place of ".key" or behind it, as a line
  // of hexadecimal digits. invalid_argument if the file is no such key, is readable by others, or
  // belongs to a user other than root and this one; unavailable or resource_exhausted if none can
  // be made.
  static Result<std::shared_ptr<const SigningKey>> open_or_make(const std::string& path);

  // 64 hexadecimal digits.
  const std::string& public_key() const { return public_; }
  // Signs the text of a manifest. Returns 128 hexadecimal digits.
  Result<std::string> sign(std::string_view text) const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  using Key = std::unique_ptr<evp_pkey_st, Free>;
  SigningKey(Key key, std::string public_key)
      : key_(std::move(key)), public_(std::move(public_key)) {}
  static Result<std::shared_ptr<const SigningKey>> of(Key key, const std::string& path);
  static Result<std::shared_ptr<const SigningKey>> read(const std::string& path);
  static Status make(const std::string& path);

  const Key key_;
  const std::string public_;
};

// Checks that the holder of a key has signed this text. Both arguments are hexadecimal.
// invalid_argument says what is wrong with the signature, and begins with `subject`.
Status check_signature(std::string_view text, const std::string& public_key,
                       const std::string& signature, std::string_view subject);

// Reads a public key: 64 hexadecimal digits, or the path of a file with them or with a PEM key.
// invalid_argument for other texts and files.
Result<std::string> read_public_key(const std::string& key_or_path);

}  // namespace leat
