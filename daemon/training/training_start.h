// Finds the state from which a training begins or continues.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/training/job_variables.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"

namespace leat {

// At most one of the two is there; the job begins at step 0 without them.
struct TrainingStart {
  std::optional<Checkpoint> checkpoint;
  std::optional<HeldStep> held;

  // The number of steps that are done at the start.
  int64_t step() const { return checkpoint ? checkpoint->manifest.step : held ? held->step : 0; }
  TrainSource source() const {
    return held ? TrainSource::memory : checkpoint ? TrainSource::checkpoint : TrainSource::start;
  }
};

// Threads: one. All calls block. Trainer makes one in run(). The search has two parts, because a
// folder with checkpoints of another training must not cost the time of a compilation, and what
// hosts hold can be judged only with the plans.
class StartFinder {
 public:
  // All outlive it.
  StartFinder(const TrainingParts& parts, JobVariables& variables, JobCheckpoints& checkpoints,
              TrainObserver& observer);

  // Looks at the checkpoints before the job's plans are compiled. failed_precondition if the folder
  // has checkpoints and the training does not resume, or if none of them can be resumed. With
  // TrainOptions::survivors it reads only the step of the newest checkpoint, without verifying it.
  // invalid_argument if the checkpoint that it has read is of another job.
  Status look_at_disk();
  // Finds the start. The memory of the hosts comes first: a large checkpoint takes long to read and
  // to verify. REQUIRES: look_at_disk() was called, and the plans are compiled. Damaged checkpoints
  // are passed over with a warning. If none is whole and no host holds a step, the job begins again
  // where TrainOptions::begin_anew allows it; failed_precondition otherwise, and for a job whose
  // weights depend on timing, since it would end with others. A checkpoint whose key is not here is
  // not damaged: invalid_argument.
  Result<TrainingStart> find();

 private:
  // The newest checkpoint that verifies. failed_precondition if there is none, invalid_argument if
  // this job cannot continue from it.
  Result<Checkpoint> newest_checkpoint();
  // Sets all checkpoints aside; returns the one that the job was submitted with, if there was one.
  Result<std::optional<Checkpoint>> begin_anew(const Status& why);
  Status forget_saved();

  const TrainingParts& parts_;
  JobVariables& variables_;
  JobCheckpoints& checkpoints_;
  TrainObserver& observer_;
  TrainingStart start_;
  int64_t on_disk_ = 0;  // the step of the newest checkpoint, which may be damaged
};

// Moves files out of the way that stand where the training is going to write a folder, or folders
// where it is going to write files. Warns the observer of each.
Status make_way(const TrainingParts& parts, const std::string& checkpoints,
                TrainObserver& observer);
// Sets checkpoints aside that are newer than the last one of `checkpoints`. They were refused; they
// would count as the newest ones and later be replaced.
Status set_aside_refused(const TrainingParts& parts, const JobCheckpoints& checkpoints,
                         TrainObserver& observer);

}  // namespace leat
