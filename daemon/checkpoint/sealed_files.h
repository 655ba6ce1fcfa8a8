// Files of runs, of which those with weights and the state of the optimizer are encrypted: the
// parts of checkpoints, the weights at the end, exports, and what graphs save. All others are as
// they are. A folder may have both kinds; each file says by itself what it is (sealed_chunks.h).
//
// Readers see the plain bytes and their number, so that hashes, manifests and signatures are over
// these. A file is read and written in chunks of 64 KiB, of which one is in memory.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "daemon/checkpoint/checkpoint_key.h"
#include "daemon/checkpoint/sealed_role.h"
#include "devices/base/forwarding_files.h"

namespace leat {

// True for the error of a file whose key is not here. It may be whole, so a reader must not take it
// for damaged.
inline bool lacks_key(const Status& why) { return why.code() == Code::unimplemented; }

// Opens, besides all other files, encrypted ones whose key is among `keys`. Errors of open(), which
// name the file:
//   unimplemented     it is encrypted with a key that is not here: see lacks_key()
//   invalid_argument  it is damaged or cut off, or has the role of another file (sealed_role.h)
// A damaged chunk in the middle is invalid_argument of the read().
//
// create() encrypts a file that has a role, with the first key. Up to 64 KiB of such a file, which
// may be its last chunk, are in memory until close(), also after a sync(); close() then syncs them,
// too, if sync() was ever called. append_to() is unimplemented for an encrypted file, and with a
// key for every file that has a role.
//
// link() keeps an encrypted file encrypted, also where the disk has no links: then it copies the
// bytes as they are. It is unimplemented for a plain file that is to get a role while there is a
// key: the caller makes a copy, which is encrypted.
// Threads: as those of `files`, which outlives it.
class SealedFiles final : public ForwardingFiles {
 public:
  // Files that graphs save are encrypted below `folders` alone.
  SealedFiles(Files& files, std::shared_ptr<const CheckpointKeys> keys, RunFolders folders = {})
      : ForwardingFiles(files), keys_(std::move(keys)), folders_(std::move(folders)) {}

  // True if new files with a role are encrypted.
  bool seals() const { return !keys_->empty(); }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size) override;
  Status link(const std::string& from, const std::string& to) override;

  // True if a file there may be encrypted by a SealedFiles with a key and the same folders.
  bool may_be_sealed(const std::string& path) const { return !folders_.role_of(path).empty(); }
  // The size that open() would give the file, if it is whole. Decrypts nothing, and needs no key.
  Result<uint64_t> plain_size(const std::string& path);

 private:
  Result<bool> is_sealed(const ReadableFile& file) const;

  const std::shared_ptr<const CheckpointKeys> keys_;
  const RunFolders folders_;
};

}  // namespace leat
