// The checkpoints of one training. JobCheckpoints decides when a checkpoint is due, and links each
// one to the one before it, its parent.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/clock.h"

namespace leat {

// The times at which a checkpoint is due, besides the end of the training. 0: never for this
// reason.
struct CheckpointRule {
  int64_t every_steps = 0;
  std::chrono::duration<double> every{0};
  int64_t keep = 3;  // the number of checkpoints to keep, the newest ones
};

// The last checkpoint that it wrote, read or found is the parent of the next one. Functions that
// read or write files block. Threads: one.
class JobCheckpoints {
 public:
  // `files` and `clock` must outlive it.
  JobCheckpoints(Files& files, const Clock& clock, std::string folder, CheckpointRule rule);

  const std::string& folder() const { return folder_; }

  // Reads the newest checkpoint that verifies, which becomes the parent of the next one. Appends
  // the errors of newer checkpoints to `refused`. failed_precondition if there is none.
  Result<Checkpoint> resume(std::vector<std::string>& refused);
  // Makes the newest checkpoint that has a manifest the parent of the next one, and returns its
  // step; nothing if there is none. Reads only the manifest, so the checkpoint may be damaged.
  std::optional<int64_t> follow_newest();
  // Returns the manifest of that checkpoint, but does not change the parent.
  std::optional<Manifest> newest() const;
  // The next checkpoint will have no parent.
  void follow_none();
  // failed_precondition if the folder contains checkpoints. A new training would lose its own
  // checkpoints beside those of another one, because the newest by step are kept and resumed from.
  Status expect_none() const;

  // Returns the first step after `done` at which a checkpoint is due; nothing if the rule names no
  // steps.
  std::optional<int64_t> next(int64_t done) const;
  // True if a checkpoint is due as soon as possible, because `every` has passed since the last one
  // or since start().
  bool is_overdue() const;
  // Starts to measure the time until the next checkpoint.
  void start();

  // Writes a checkpoint with its parent filled in, and removes those that the rule does not keep. A
  // failure leaves earlier checkpoints unchanged. failed_precondition unless its step is after that
  // of the parent: a checkpoint of the same step would be its own parent, and readers would refuse
  // it.
  Status write(Manifest manifest, const Variables& variables);

  // The parts of write() for a caller that writes the checkpoint itself. begin() fills in the
  // parent, and what a provenance has of it: the first weights and the runs before. It restarts the
  // time; written() makes the checkpoint the parent of the next one. The
  // caller then removes old checkpoints down to keep().
  Result<Manifest> begin(Manifest manifest);
  void written(const Manifest& manifest);
  int64_t keep() const { return rule_.keep; }

  // The path and step of the parent; "" and -1 if there is none.
  const std::string& last_path() const { return last_path_; }
  int64_t last_step() const { return last_ ? last_->step : -1; }
  // True if the next checkpoint has no parent.
  bool is_first() const { return !last_; }
  // The SHA-256 of the manifest of the parent, if it is of another run than `run` or says nothing
  // of its run; else "".
  std::string foreign_parent(const std::string& run) const;
  // The digest of the metrics in the checkpoint that resume() or follow_newest() found.
  const std::optional<MetricsDigest>& metrics() const { return last_metrics_; }

 private:
  void follow(const Manifest& parent);
  // Adds what the parent says of its origin.
  void inherit(Provenance& provenance) const;

  Files& files_;
  const Clock& clock_;
  const std::string folder_;
  const CheckpointRule rule_;
  std::string last_path_;
  std::optional<CheckpointParent> last_;
  // Of the parent: its name of the job, its provenance, and the digest of its metrics as resume()
  // or follow_newest() found it.
  std::string last_job_;
  std::optional<Provenance> last_provenance_;
  std::optional<MetricsDigest> last_metrics_;
  Clock::Steady since_{};
};

}  // namespace leat
