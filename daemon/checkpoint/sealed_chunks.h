// The chunks of an encrypted file: AES-256-GCM (NIST SP 800-38D) of libcrypto, in the manner of
// STREAM (Hoang, Reyhanitabar, Rogaway, Vizár: Online Authenticated-Encryption and its
// Nonce-Reuse Misuse-Resistance, 2015).
//
//   header   "leatseal" │ 1 │ length of the role │ id of the key │ salt │ role
//            8 bytes      1   1                    8               32
//   chunk    up to 64 KiB of the file, encrypted │ tag of 16 bytes; the last one may be empty
//   ...
//
// The nonce of a chunk has its number and whether it is the last one, and the header is in the
// associated data of each. So no chunk can be changed, left out, repeated, moved within the file or
// to another one, and no file can be cut off behind a chunk. The key is one of this file alone, so
// no nonce comes twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_key.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

struct evp_cipher_ctx_st;

namespace leat {

inline constexpr size_t kSealedChunk = 64u << 10;  // bytes of the file
inline constexpr size_t kSealedTag = 16;

struct SealedHeader {
  static constexpr size_t kFixedBytes =
      8 + 1 + 1 + CheckpointKey::kIdBytes + CheckpointKey::kSaltBytes;
  CheckpointKey::Id key = {};
  CheckpointKey::Salt salt = {};
  std::string role;  // at most 255 bytes

  // With a new salt. internal if the system has no random numbers.
  static Result<SealedHeader> create(const CheckpointKey& key, std::string role);

  size_t bytes() const { return kFixedBytes + role.size(); }
  Bytes print() const;
};

// Reads the header of a file that begins_sealed(). invalid_argument names the file.
Result<SealedHeader> read_sealed_header(const ReadableFile& file);

// Encrypts and decrypts the chunks of one file. Threads: one at a time.
class SealedCipher {
 public:
  static Result<SealedCipher> create(const CheckpointKey& key, const SealedHeader& header);

  // Appends the encrypted chunk and its tag to `out`. REQUIRES: at most kSealedChunk bytes; no
  // number comes twice.
  Status seal(uint64_t number, bool last, std::span<const std::byte> chunk, Bytes& out);
  // Decrypts a chunk with its tag; `out` has kSealedTag bytes less. False if it is not this chunk
  // as it was encrypted; `out` then has zeros.
  Result<bool> open(uint64_t number, bool last, std::span<const std::byte> chunk,
                    std::span<std::byte> out);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, Free>;
  SealedCipher(Context context, CheckpointKey::FileKey key, Bytes header)
      : context_(std::move(context)), key_(key), header_(std::move(header)) {}
  Status begin(uint64_t number, bool last, bool encrypts);

  Context context_;
  CheckpointKey::FileKey key_;
  Bytes header_;
};

}  // namespace leat
