// Uploaded files by their content: <folder>/<SHA-256 in hexadecimal>, written whole or not at all.
// A process that dies leaves others, whose names end with ".tmp".
//
// Threads: any, as long as the same blob is not put and removed at once.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/sha256.h"

namespace leat {

// A blob on its way to disk, in pieces. Unless it was finished, destroying it leaves nothing.
// Threads: one at a time.
class ArrivingBlob {
 public:
  ~ArrivingBlob();
  ArrivingBlob(const ArrivingBlob&) = delete;
  ArrivingBlob& operator=(const ArrivingBlob&) = delete;

  // The next bytes. invalid_argument past the size that was told. After an error there is nothing
  // but to destroy it.
  Status append(std::span<const std::byte> bytes);
  // On disk, synced, when it says ok. invalid_argument if the bytes are not those of the hash.
  Status finish();

 private:
  friend class Blobs;
  ArrivingBlob(Files& files, std::string path, std::string temporary, const Sha256Digest& sha256,
               uint64_t size, std::unique_ptr<WritableFile> file);
  Status publish();

  Files& files_;
  const std::string path_;
  const std::string temporary_;
  const Sha256Digest sha256_;
  const uint64_t size_;
  std::unique_ptr<WritableFile> file_;
  Sha256 hash_;
  uint64_t received_ = 0;
  uint64_t unsynced_ = 0;
  bool there_ = true;  // the temporary file
};

class Blobs {
 public:
  Blobs(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  // One that is to have that hash and size.
  Result<std::unique_ptr<ArrivingBlob>> begin(const Sha256Digest& sha256, uint64_t size);
  // All of it at once: on disk, synced, when it says ok.
  Status put(const Sha256Digest& sha256, std::span<const std::byte> bytes);
  // The same of a file, read in pieces.
  Status copy(const ReadableFile& file, const Sha256Digest& sha256);
  // The same of a file that is on disk and that nobody changes in place, which may go: it gets a
  // second name, or is copied where there is no such thing. REQUIRES: it has that hash.
  Status share(const ReadableFile& file, const Sha256Digest& sha256);
  // Whether it is there with that size. Its bytes are checked by whoever reads them.
  Result<bool> has(const Sha256Digest& sha256, uint64_t size) const;
  std::string path(const Sha256Digest& sha256) const;
  // All hashes of which there are files, and leftovers of a crash, as names in the folder.
  Result<std::vector<std::string>> names() const;
  Status remove(const std::string& name);

 private:
  std::string temporary(const Sha256Digest& sha256);

  Files& files_;
  const std::string folder_;
  std::atomic<uint64_t> begun_{0};
};

}  // namespace leat
