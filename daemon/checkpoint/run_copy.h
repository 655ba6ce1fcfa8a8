// A copy of a run in another place, from which a training can go on if the run's own disk is lost:
// another disk, or a store (ops/data/stores/store_files.h).
//
//   <to>/job.yaml, metrics.jsonl, ...                 as in the run's folder
//   <to>/checkpoints/step-00000500/part-...           first
//   <to>/checkpoints/step-00000500/manifest.json      last: with it the checkpoint is whole
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/checkpoint/checkpoint_key.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

struct RunCopyPlaces {
  std::string run;   // the folder of the run, on a disk
  std::string to;    // the copy's: a folder that need not exist, or "s3://bucket/runs/NAME"
  int64_t keep = 3;  // the newest so many checkpoints stay in the copy
  // The keys of the run's files, by which a RunCopier encrypts those of the copy, too; may be null.
  std::shared_ptr<const CheckpointKeys> keys = nullptr;
  std::string id = {};  // of the job; "" for a run of `leat train`

  // The folders of the checkpoints, and of their copies.
  std::string checkpoints() const { return run + "/checkpoints"; }
  std::string copies() const { return to + "/checkpoints"; }
};

// Threads: one. All functions block on both places, and return the errors of their files.
class RunCopy {
 public:
  // `files` has both places, and outlives the copy. Once `stopped` is true, copying ends between
  // two pieces of a file, as cancelled; empty: it does not.
  RunCopy(Files& files, RunCopyPlaces places, std::function<bool()> stopped = {})
      : files_(files), places_(std::move(places)), stopped_(std::move(stopped)) {}

  // failed_precondition if the place has checkpoints already: those of another training, which the
  // copy would replace.
  Status expect_none() const;
  // Copies the checkpoint of that step with the other files, which come first: a checkpoint in the
  // copy has its metrics there. Checkpoints of later steps are those of a training that was gone
  // back behind; they are removed then, and so are those that are too old. Each part is compared
  // with its hash: invalid_argument for a damaged one, and then the copy has the checkpoints that
  // it had. Only while the checkpoint of a step is replaced by another one of that step, the copy
  // has neither.
  Status copy(int64_t step);
  // Whether the copy has a checkpoint of a later step.
  Result<bool> is_ahead(int64_t step) const;
  // Whether the run has that checkpoint still.
  bool has(int64_t step) const;
  // Copies the files of the run, without checkpoints, that have changed since they were last
  // copied. A file that the graph saved (leat.Save) and that cannot be copied, such as one that is
  // damaged or that the disk fails to read, keeps back neither other files nor copy(): copy_files()
  // returns its error at the end.
  Status copy_files();
  // The first error of such a file in the last copy() or copy_files(); ok if there was none.
  const Status& left_out() const { return left_out_; }

 private:
  Status copy_changed();
  Status copy_checkpoint(const std::string& from, const std::string& to);
  Status prune(int64_t newest);
  Status remove_checkpoint(const std::string& path);

  Files& files_;
  const RunCopyPlaces places_;
  const std::function<bool()> stopped_;
  // By name: the size and the time of change of what was copied.
  std::map<std::string, std::pair<uint64_t, int64_t>> copied_;
  Status left_out_;
};

// Copies a run with its newest checkpoint that is whole to an empty folder of a disk or a new one,
// from a folder or a store. Returns the step of the checkpoint, and appends to `refused` the
// errors of newer ones, which are damaged or not whole, and of saved files that cannot be read; the
// run is brought without those. failed_precondition if there is no run or no
// whole checkpoint, and if the folder is not empty; else the errors of the files.
Result<int64_t> bring_run(Files& files, const std::string& from, const std::string& to,
                          std::vector<std::string>& refused);

}  // namespace leat
