// Uploaded files by their content: <folder>/<SHA-256 in hexadecimal>, written whole or not at all.
//
// Threads: any, as long as the same blob is not put and removed at once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/sha256.h"

namespace leat {

class Blobs {
 public:
  Blobs(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  // On disk, synced, when it says ok. invalid_argument if the bytes are not those of the hash.
  Status put(const Sha256Digest& sha256, std::span<const std::byte> bytes);
  // Whether it is there with that size. Its bytes are checked by whoever reads them.
  Result<bool> has(const Sha256Digest& sha256, uint64_t size) const;
  std::string path(const Sha256Digest& sha256) const;
  // All hashes of which there are files, and leftovers of a crash, as names in the folder.
  Result<std::vector<std::string>> names() const;
  Status remove(const std::string& name);

 private:
  Files& files_;
  const std::string folder_;
};

}  // namespace leat
