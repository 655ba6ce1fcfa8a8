// Uploaded files by their content: <folder>/<SHA-256 in hexadecimal>, written whole or not at all.
// A process that dies may leave temporary files, whose names end with ".tmp".
//
// Threads: any; but no thread puts a blob while another thread removes it.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/sealed_magic.h"
#include "devices/base/files.h"
#include "devices/base/sha256.h"

namespace leat {

// A blob that is written to disk in pieces. If it is destroyed before it is finished, no file is
// left. Threads: one at a time.
class ArrivingBlob {
 public:
  // Begins a blob that is to become the file `path`, and is written as the file `temporary`, which
  // must not exist, in the same folder, which must exist.
  static Result<std::unique_ptr<ArrivingBlob>> begin(Files& files, std::string path,
                                                     std::string temporary,
                                                     const Sha256Digest& sha256, uint64_t size);
  ~ArrivingBlob();
  ArrivingBlob(const ArrivingBlob&) = delete;
  ArrivingBlob& operator=(const ArrivingBlob&) = delete;

  // Appends the next bytes. invalid_argument beyond the announced size, and for an encrypted file
  // (sealed_magic.h). After an error the object can only be destroyed.
  Status append(std::span<const std::byte> bytes);
  // When it returns ok, the blob is on disk and synced. invalid_argument if the bytes have another
  // hash.
  Status finish();
  // Destroys `permit` when the blob is finished and destroyed, or is given up.
  void keep(std::shared_ptr<void> permit) { permit_ = std::move(permit); }

 private:
  ArrivingBlob(Files& files, std::string path, std::string temporary, const Sha256Digest& sha256,
               uint64_t size, std::unique_ptr<WritableFile> file);
  Status publish();

  std::shared_ptr<void> permit_;  // first: the files are closed and removed before it goes
  Files& files_;
  const std::string path_;
  const std::string temporary_;
  const Sha256Digest sha256_;
  const uint64_t size_;
  std::unique_ptr<WritableFile> file_;
  Sha256 hash_;
  uint64_t received_ = 0;
  std::array<std::byte, kSealedMagic.size()> start_{};  // the first bytes, as far as they came
  uint64_t unsynced_ = 0;
  bool there_ = true;  // the temporary file exists
};

class Blobs {
 public:
  Blobs(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  // Begins a blob with that hash and size.
  Result<std::unique_ptr<ArrivingBlob>> begin(const Sha256Digest& sha256, uint64_t size);
  // Writes a whole blob: on disk and synced when it returns ok.
  Status put(const Sha256Digest& sha256, std::span<const std::byte> bytes);
  // The same with the content of a file, which is read in pieces.
  Status copy(const ReadableFile& file, const Sha256Digest& sha256);
  // The same with a file on this disk that is never changed in place, but may be removed: the file
  // is hard-linked, or copied where the disk has no hard links. REQUIRES: the file has that hash.
  Status share(const ReadableFile& file, const Sha256Digest& sha256);
  // True if the blob exists with that size. Does not check its bytes: readers do.
  Result<bool> has(const Sha256Digest& sha256, uint64_t size) const;
  std::string path(const Sha256Digest& sha256) const;
  // The names of all files in the folder: hashes, and temporary files that a crash left.
  Result<std::vector<std::string>> names() const;
  Status remove(const std::string& name);
  // The bytes of all whole blobs, by name; of one that cannot be opened, those on the disk.
  Result<std::map<std::string, uint64_t>> sizes() const;

 private:
  std::string temporary(const Sha256Digest& sha256);

  Files& files_;
  const std::string folder_;
  std::atomic<uint64_t> begun_{0};
};

}  // namespace leat
