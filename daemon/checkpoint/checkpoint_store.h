// Checkpoints on disk: the variables of a job after a step.
//
//   step-00000500/part-00000-of-00002.safetensors   variables, optimizer state included; any tool
//   step-00000500/part-00001-of-00002.safetensors   reads them
//   step-00000500/manifest.json                     written last; see manifest.h
//
// The folder is written under a temporary name, every file and the folder synced, and renamed; then
// the folder above is synced. Under its own name a checkpoint is whole, or it was damaged later,
// which the hashes show. A sync that failed is never tried again: the checkpoint fails, and the
// ones before it stay.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/checkpoint/manifest.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/tensor.h"

namespace leat {

using Variables = std::map<std::string, Tensor>;

struct Checkpoint {
  Manifest manifest;
  Variables variables;
};

// "step-00000500".
std::string checkpoint_name(int64_t step);

// One checkpoint being written. Unless it was committed, destroying it leaves nothing behind; a
// process that dies leaves a folder that the next prune_checkpoints() removes.
// Threads: write_part() any, each its own part; the rest one.
class CheckpointWriter {
 public:
  // Makes `folder` if it is not there. `files` outlives the writer. REQUIRES: 1 <= parts <=
  // kMaxCheckpointParts.
  static Result<std::unique_ptr<CheckpointWriter>> begin(Files& files, const std::string& folder,
                                                         int64_t step, size_t parts);
  ~CheckpointWriter();

  // Writes and syncs one part. REQUIRES: no part of this index before.
  Status write_part(size_t index, const Variables& variables);
  // Publishes the checkpoint, which is on disk then. One of that step that was there is replaced.
  // The manifest's step and parts are filled in. REQUIRES: all parts are written.
  Result<Manifest> commit(Manifest manifest);
  std::string path() const;  // that it has once it is committed

 private:
  CheckpointWriter(Files& files, const std::string& folder, int64_t step, size_t parts);
  Status publish(const std::string& manifest);

  Files& files_;
  const std::string folder_;
  const int64_t step_;
  const std::string temporary_;
  bool committed_ = false;
  std::mutex mutex_;
  std::vector<CheckpointPart> parts_;  // whose sha256 is empty until they are written
};

// Of one part. On failure nothing that was whole before is damaged.
Result<Manifest> write_checkpoint(Files& files, const std::string& folder,
                                  const Checkpoint& checkpoint);

// Reads and verifies one. invalid_argument says what is damaged.
Result<Checkpoint> read_checkpoint(Files& files, const std::string& path);

// What it says of itself, whether its parts are there or not.
Result<Manifest> read_manifest(Files& files, const std::string& path);

// Every byte of it is what was written; invalid_argument says which is not.
Result<Manifest> verify_checkpoint(Files& files, const std::string& path);

// What there is in a folder, verified or not: paths, the newest first. None if there is no folder.
Result<std::vector<std::string>> list_checkpoints(Files& files, const std::string& folder);

// The newest checkpoint in `folder` that verifies; the reasons why newer ones were passed over are
// appended to `refused`. failed_precondition if there is none.
Result<Checkpoint> read_latest_checkpoint(Files& files, const std::string& folder,
                                          std::vector<std::string>& refused);

// Removes all but the newest `keep`, and what interrupted writers left behind.
// REQUIRES: nobody writes there.
Status prune_checkpoints(Files& files, const std::string& folder, int64_t keep);

}  // namespace leat
