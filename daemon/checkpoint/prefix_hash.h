// The SHA-256 of the first bytes of a file that only grows, such as metrics.jsonl: each byte is
// read once, however often the hash is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"

struct evp_md_ctx_st;

namespace leat {

// Threads: one at a time.
class PrefixHash {
 public:
  // `files` outlives it. The bytes before those that an earlier call has hashed stay as they are.
  PrefixHash(Files& files, std::string path);

  // The hash of the first `bytes` bytes, in hexadecimal; if these are fewer than before, they are
  // read again. Errors are those of the file; unavailable if it is shorter.
  Result<std::string> until(uint64_t bytes);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };

  Files& files_;
  const std::string path_;
  uint64_t hashed_ = 0;
  const std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace leat
