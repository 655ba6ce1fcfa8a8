// Writes the checkpoints of a training beside its steps.
//
// The hosts copy their variables either between two steps, when all have done the same ones, or in
// passing, after a step that they were told of in advance. The copies are written by threads of
// their own; the checkpointer collects the outcome later.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/metrics/metrics_log.h"
#include "daemon/training/checkpoint_task.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"
#include "daemon/training/training_steps.h"

namespace leat {

// The manifest of a checkpoint of the job after `step` steps, without its parts and its parent.
// `metrics` is empty, too.
Manifest manifest_of(const TrainingParts& parts, int64_t step);

// A checkpoint that cannot be written costs the job nothing but the checkpoint: the observer is
// warned, and the next one is tried. Only take_last() fails then.
//
// Threads: one.
class Checkpointer {
 public:
  // All outlive it. Before a manifest is written, the rows of `metrics` are on the disk. The
  // checkpoints get `provenance`, with what their parents add to it.
  Checkpointer(const TrainingParts& parts, const JobPlans& plans, JobCheckpoints& store,
               MetricsLog& metrics, TrainObserver& observer, Provenance provenance);

  // The steps will continue after step `done`, at which all hosts are.
  // REQUIRES: no step is in flight.
  void begin_steps(int64_t done);
  // Tells the hosts of the next checkpoint before `fence`, so that they copy it in passing. Returns
  // the limit for the steps: the checkpoint after that one, since hosts know one at a time; or the
  // next one itself, if they cannot copy it in passing or still hold the copies of another.
  int64_t announce(int64_t fence, TrainingSteps& steps);
  // Begins to write the announced checkpoint when all hosts have copied it.
  Status take_if_passed(int64_t done, TrainingSteps& steps);
  // Takes a checkpoint if one is due now. REQUIRES: all hosts are at step `done`.
  Status take_if_due(int64_t done);
  // Takes the checkpoint of the step after which the training ends, and waits until it is written.
  // REQUIRES: all hosts are at step `done`. resource_exhausted if the disk is full: the caller may
  // try again. Does nothing if the newest checkpoint is of this step already.
  Status take_last(int64_t done);
  // Collects the checkpoint that is being written, if it is done; with `wait` it blocks until then.
  // Fails only if the metrics cannot be written after a checkpoint has failed.
  Status collect(bool wait);

  // A checkpoint should be taken as soon as possible, and none is being written.
  bool hurries() const { return !writing_ && is_overdue(); }
  // The last checkpoint found no room on the disk.
  bool lacks_room() const { return no_room_.has_value(); }

 private:
  // The hosts' variables of a step: copied in passing, to be copied, or lent since no step follows.
  enum class Source : uint8_t { passing, copy, lent };
  Status begin(int64_t step, Source source);
  Status take(int64_t step, bool taken);
  void note_missing(int64_t step, const Status& why);
  bool is_overdue() const;
  // Checkpoints that were asked for: see TrainOptions::checkpoints_asked.
  uint64_t asked() const;

  const TrainingParts& parts_;
  const JobPlans& plans_;
  JobCheckpoints& store_;
  MetricsLog& metrics_;
  TrainObserver& observer_;
  const Provenance provenance_;
  const std::shared_ptr<PrefixHash> metrics_hash_;
  std::optional<Clock::Steady> no_room_;  // when the last checkpoint found none
  uint64_t served_ = 0;                   // of those that were asked for
  int64_t announced_ = 0;           // no checkpoint up to this step is to be announced any more
  std::optional<int64_t> passing_;  // announced, and not yet copied by all hosts
  std::unique_ptr<CheckpointTask> writing_;  // last: it uses the rest
};

}  // namespace leat
