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
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/checkpoint/manifest.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat {

struct Checkpoint {
  Manifest manifest;
  Variables variables;
};

// "step-00000500".
std::string checkpoint_name(int64_t step);

// One checkpoint being written. Unless it was committed, destroying it leaves nothing behind; a
// process that dies leaves a folder that the next prune_checkpoints() removes.
// Threads: those with an index any, each its own part; the rest one.
class CheckpointWriter {
 public:
  // Makes `folder` if it is not there. `files` outlives the writer. `token`: what nobody else would
  // think of, if others are told the place of a part. REQUIRES: 1 <= parts <= kMaxCheckpointParts.
  static Result<std::unique_ptr<CheckpointWriter>> begin(Files& files, const std::string& folder,
                                                         int64_t step, size_t parts,
                                                         const std::string& token = {});
  ~CheckpointWriter();

  // Writes and syncs one part, whose bytes `fill` gives. REQUIRES: no part of this index before.
  Status fill_part(size_t index, const std::function<Status(const TakeBytes&)>& fill);
  Status write_part(size_t index, const Variables& variables);
  // Where somebody else may write it; who does says so by wrote_part(), which looks for it there.
  PartPlace place(size_t index) const;
  Status wrote_part(size_t index, CheckpointPart part);
  // Publishes the checkpoint, which is on disk then. One of that step that was there is replaced.
  // The manifest's step and parts are filled in. REQUIRES: all parts are written.
  Result<Manifest> commit(Manifest manifest);
  std::string path() const;  // that it has once it is committed

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

// Removes what interrupted writers left behind. REQUIRES: nobody writes there, but for those whose
// part nobody waits for any more.
Status remove_leftovers(Files& files, const std::string& folder);
// Removes all but the newest `keep`, and what interrupted writers left behind.
// REQUIRES: as above.
Status prune_checkpoints(Files& files, const std::string& folder, int64_t keep);

}  // namespace leat
