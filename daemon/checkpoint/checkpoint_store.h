// Checkpoints on disk: the variables of a job after a step.
//
//   step-00000500/part-00000-of-00002.safetensors   variables, optimizer state included; any tool
//   step-00000500/part-00001-of-00002.safetensors   for safetensors can read them
//   step-00000500/manifest.json                     written last; see manifest.h
//
// The writer writes the folder under a temporary name, syncs every file and the folder, renames it,
// and syncs the folder above. A checkpoint under its own name is therefore complete, unless it was
// damaged later, which the hashes reveal. After a failed sync the writer does not try again: the
// checkpoint fails, and earlier ones remain.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/checkpoint/manifest.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat {

// A checkpoint in memory.
struct Checkpoint {
  Manifest manifest;
  Variables variables;
};

// Returns the name of a checkpoint's folder: "step-00000500".
std::string checkpoint_name(int64_t step);
// The step in the name of a checkpoint's folder; -1 for another name.
int64_t step_of_checkpoint(std::string_view name);

// Writes one checkpoint. If it is destroyed before commit(), it removes its files; if the process
// dies, the next prune_checkpoints() removes them. All functions block on the disk and return the
// errors of Files. Threads: functions with an index may run on any threads, one for each part; the
// others on one thread.
class CheckpointWriter {
 public:
  // Creates `folder` if it does not exist. `files` must outlive the writer. `token` becomes a part
  // of the temporary name: it must be unguessable if place() is passed to other processes.
  // REQUIRES: 1 <= parts <= kMaxCheckpointParts.
  static Result<std::unique_ptr<CheckpointWriter>> begin(Files& files, const std::string& folder,
                                                         int64_t step, size_t parts,
                                                         const std::string& token = {});
  ~CheckpointWriter();

  // Writes and syncs one part with the bytes that `fill` passes on. REQUIRES: the part is not
  // written yet.
  Status fill_part(size_t index, const std::function<Status(const TakeBytes&)>& fill);
  // The same with these variables.
  Status write_part(size_t index, const Variables& variables);
  // Returns the place at which another process may write the part. The caller then reports the part
  // by wrote_part(), which checks that the file is there.
  PartPlace place(size_t index) const;
  Status wrote_part(size_t index, CheckpointPart part);
  // Publishes the checkpoint, which is on disk when this returns. It replaces an earlier checkpoint
  // of the same step. Returns the manifest with its step and parts filled in, and signed if there
  // is a key; without one a signature stays as it is. REQUIRES: all parts are written.
  Result<Manifest> commit(Manifest manifest, const SigningKey* key = nullptr);
  std::string path() const;  // of the checkpoint once it is committed

 private:
  CheckpointWriter(Files& files, const std::string& folder, int64_t step, size_t parts,
                   const std::string& token);
  Status publish(const std::string& manifest);

  Files& files_;
  const std::string folder_;
  const int64_t step_;
  const std::string temporary_;
  bool committed_ = false;
  std::mutex mutex_;
  std::vector<CheckpointPart> parts_;  // a part's sha256 is empty until it is written
};

// Writes a checkpoint with one part. A failure damages no earlier checkpoint.
Result<Manifest> write_checkpoint(Files& files, const std::string& folder,
                                  const Checkpoint& checkpoint);

// Reads and verifies a checkpoint. invalid_argument describes the damage; lacks_key() is true for
// an error only if the key is not here (sealed_files.h).
Result<Checkpoint> read_checkpoint(Files& files, const std::string& path);

// Reads only the manifest of a checkpoint, without looking for its parts.
Result<Manifest> read_manifest(Files& files, const std::string& path);
// The same from the bytes of the manifest in the folder `path`.
Result<Manifest> manifest_in(const std::string& path, std::span<const std::byte> bytes);

// Verifies the manifest and every byte of the parts. invalid_argument names the damaged file.
Result<Manifest> verify_checkpoint(Files& files, const std::string& path);

// Lists the checkpoints in a folder, verified or not: their paths, the newest first. The list is
// empty if the folder does not exist.
Result<std::vector<std::string>> list_checkpoints(Files& files, const std::string& folder);

// Returns the newest checkpoint in `folder` that verifies, and appends the errors of newer ones to
// `refused`. failed_precondition if there is none; invalid_argument if the key of a newer
// one is not here.
Result<Checkpoint> read_latest_checkpoint(Files& files, const std::string& folder,
                                          std::vector<std::string>& refused);

// Removes the files of interrupted writers. REQUIRES: nothing writes to `folder`, except writers of
// parts whose outcome no longer matters.
Status remove_leftovers(Files& files, const std::string& folder);
// Removes all but the newest `keep` checkpoints, and the files of interrupted writers. REQUIRES:
// like remove_leftovers().
Status prune_checkpoints(Files& files, const std::string& folder, int64_t keep);

}  // namespace leat
