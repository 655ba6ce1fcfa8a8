// Files of runs, of which those with weights and the state of the optimizer are encrypted: the
// parts of checkpoints, the weights at the end, and exports. All others are as they are. A folder
// may have both kinds; each file says by itself what it is (sealed_chunks.h).
//
// Readers see the plain bytes and their number, so that hashes, manifests and signatures are over
// these. A file is read and written in chunks of 64 KiB, of which one is in memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/checkpoint/checkpoint_key.h"
#include "devices/base/forwarding_files.h"

namespace leat {

// The role of a file within the folder of its run, which is encrypted with it, so that no file can
// take the place of another: "step-00000500/part-00000-of-00002.safetensors", also in a folder
// under a temporary name or one that is set aside; "weights.safetensors"; "export/model.onnx". ""
// for a file that is never encrypted, and for one whose name says nothing, such as a blob.
std::string sealed_role(std::string_view path);

// True for the error of a file whose key is not here. It may be whole, so a reader must not take it
// for damaged.
inline bool lacks_key(const Status& why) { return why.code() == Code::unimplemented; }

// Opens, besides all other files, encrypted ones whose key is among `keys`. Errors of open(), which
// name the file:
//   unimplemented     it is encrypted with a key that is not here: see lacks_key()
//   invalid_argument  it is damaged or cut off, or has the role of another file
// A damaged chunk in the middle is invalid_argument of the read().
//
// create() encrypts a file that has a role, with the first key. sync() and close() end such a file:
// append() then fails. append_to() is unimplemented for an encrypted file, and with a key for every
// file that has a role.
//
// link() keeps an encrypted file encrypted, also where the disk has no links: then it copies the
// bytes as they are. It is unimplemented for a plain file that is to get a role while there is a
// key: the caller makes a copy, which is encrypted.
// Threads: as those of `files`, which outlives it.
class SealedFiles final : public ForwardingFiles {
 public:
  SealedFiles(Files& files, std::shared_ptr<const CheckpointKeys> keys)
      : ForwardingFiles(files), keys_(std::move(keys)) {}

  // True if new files with a role are encrypted.
  bool seals() const { return !keys_->empty(); }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size) override;
  Status link(const std::string& from, const std::string& to) override;

 private:
  Result<bool> is_sealed(const ReadableFile& file) const;

  const std::shared_ptr<const CheckpointKeys> keys_;
};

}  // namespace leat
