// The checkpoints of one training: when one is due, and each written with the one before it as its
// parent.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/clock.h"

namespace leat {

// When one is due, besides the end. 0: not for that reason.
struct CheckpointRule {
  int64_t every_steps = 0;
  std::chrono::duration<double> every{0};
  int64_t keep = 3;  // the newest so many stay
};

// Threads: one.
class JobCheckpoints {
 public:
  // `files` and `clock` outlive it.
  JobCheckpoints(Files& files, const Clock& clock, std::string folder, CheckpointRule rule);

  const std::string& folder() const { return folder_; }

  // The newest one that verifies, which those to come go on from. The reasons why newer ones were
  // passed over are appended to `refused`. failed_precondition if there is none.
  Result<Checkpoint> resume(std::vector<std::string>& refused);
  // The step of the newest one that has a manifest, which is all that is read of it: whether it
  // verifies is not known. Those to come go on from it. Nothing if there is none.
  std::optional<int64_t> follow_newest();
  // The manifest of that one; nothing is gone on from.
  std::optional<Manifest> newest() const;
  // Those to come go on from none.
  void follow_none();
  // failed_precondition if there are any: a new training beside the checkpoints of another would
  // lose its own, for the newest by step are kept, and resumed from.
  Status expect_none() const;

  // The first step after `done` at which one is due.
  std::optional<int64_t> next(int64_t done) const;
  // One is due as soon as can be: that much time has gone by since the last one, or since start().
  bool is_overdue() const;
  // Time begins to count.
  void start();

  // Writes one, fills in its parent, and removes what is not to be kept. On failure those that are
  // there stay. failed_precondition unless it is of a later step than the last one: in its place,
  // it would have itself as its parent, and be refused.
  Status write(Manifest manifest, const Variables& variables);

  // The same in steps, for who writes it elsewhere: its parent is filled in and the time begins to
  // count anew; then it is the last one; then what is not to be kept is removed.
  Result<Manifest> begin(Manifest manifest);
  void written(const Manifest& manifest);
  int64_t keep() const { return rule_.keep; }

  // Of the last one; "" and -1 if there is none.
  const std::string& last_path() const { return last_path_; }
  int64_t last_step() const { return last_ ? last_->step : -1; }
  // The digest of the metrics in the checkpoint that the next ones follow.
  const std::optional<MetricsDigest>& metrics() const { return metrics_; }

 private:
  Files& files_;
  const Clock& clock_;
  const std::string folder_;
  const CheckpointRule rule_;
  std::string last_path_;
  std::optional<CheckpointParent> last_;
  std::optional<MetricsDigest> metrics_;
  Clock::Steady since_{};
};

}  // namespace leat
