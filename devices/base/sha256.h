// SHA-256, over libcrypto.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "devices/base/files.h"
#include "devices/base/status.h"

struct evp_md_ctx_st;

namespace leat {

using Sha256Digest = std::array<uint8_t, 32>;

// A hash that is fed piece by piece. A libcrypto without SHA-256 is a broken installation: the
// process ends with a message that says so, since nothing it promises could be kept.
// Threads: one at a time.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // The digest of all that was fed. The hash then starts anew.
  Sha256Digest finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

Sha256Digest sha256(std::span<const std::byte> bytes);

// Of a whole file, read piece by piece: 64 hexadecimal digits.
Result<std::string> sha256_of(const ReadableFile& file);

// Lower-case hexadecimal, two digits a byte.
std::string to_hex(std::span<const uint8_t> bytes);
// False if the text is not exactly that of so many bytes, which are of no use then.
bool from_hex(std::string_view text, std::span<uint8_t> bytes);

}  // namespace leat
