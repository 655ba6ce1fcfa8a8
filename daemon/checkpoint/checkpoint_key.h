// The keys that encrypt the files with weights in the folders of runs (sealed_files.h), and the
// values in the records of lasting sessions (sealed_values.h).
//
// Threads: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// The content of a key file. Each encrypted file or value has a key of its own, which is derived
// from it by HKDF-SHA256 (RFC 5869) with a random salt.
class CheckpointKey {
 public:
  static constexpr size_t kIdBytes = 8;
  static constexpr size_t kSaltBytes = 32;
  using Id = std::array<std::byte, kIdBytes>;
  using Salt = std::array<std::byte, kSaltBytes>;
  using FileKey = std::array<std::byte, 32>;

  // internal if libcrypto fails.
  static Result<CheckpointKey> of(std::string secret);

  // Tells one key from another, and nothing of the key: files and records name theirs by it.
  const Id& id() const { return id_; }
  // The same as hexadecimal digits.
  static std::string text_of(const Id& id);
  // The key of a file or value with this salt and role.
  Result<FileKey> file_key(const Salt& salt, std::string_view role) const;

 private:
  CheckpointKey(std::string secret, Id id) : secret_(std::move(secret)), id_(id) {}

  std::string secret_;
  Id id_;
};

// The keys of a process. New files are encrypted with the first one; without any key they are
// written as they are.
using CheckpointKeys = std::vector<CheckpointKey>;

// Makes keys of the contents of key files. Empty texts are left out.
Result<std::shared_ptr<const CheckpointKeys>> make_checkpoint_keys(
    std::span<const std::string> secrets);

}  // namespace leat
