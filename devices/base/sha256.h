// SHA-256 from libcrypto, and hexadecimal text.
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

// The 32 bytes of a SHA-256.
using Sha256Digest = std::array<uint8_t, 32>;

// A hash that takes its input piece by piece. A libcrypto without SHA-256 is a broken installation:
// the process ends with a message that says so, since it could keep none of its promises.
// Threads: one at a time.
class Sha256 {
 public:
  Sha256();
  // Adds bytes behind those that were added before.
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // The digest of all bytes since the last finish(). The hash then starts anew.
  Sha256Digest finish();

 private:
  // Frees a context of libcrypto.
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// The digest of bytes that are all in memory.
Sha256Digest sha256(std::span<const std::byte> bytes);

// The digest of a whole file, which is read in pieces, as 64 hexadecimal digits. Errors are those
// of the file.
Result<std::string> sha256_of(const ReadableFile& file);

// Lower-case hexadecimal, two digits per byte.
std::string to_hex(std::span<const uint8_t> bytes);
// Reads the text that to_hex() writes for exactly this many bytes. Returns false for any other
// text, and then leaves some of `bytes` overwritten.
bool from_hex(std::string_view text, std::span<uint8_t> bytes);

}  // namespace leat
