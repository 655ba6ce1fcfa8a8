// The loop of a training: steps, epochs, evaluations and checkpoints, until its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/training/checkpointer.h"
#include "daemon/training/epoch_progress.h"
#include "daemon/training/evaluator.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/job_variables.h"
#include "daemon/training/phase_times.h"
#include "daemon/training/step_log.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"
#include "daemon/training/training_start.h"
#include "daemon/training/training_steps.h"

namespace leat {

// Threads: one. open() is called once, then run() once.
class TrainingLoop {
 public:
  // All outlive it. `stop`: the training should end between two steps.
  TrainingLoop(const TrainingParts& parts, JobPlans& plans, JobVariables& variables,
               JobCheckpoints& checkpoints, TrainObserver& observer, std::function<bool()> stop);

  // Starts the runs, and brings the variables, the folder and the metrics to `start`. Blocks.
  Status open(TrainingStart start, PhaseTimes& times);
  // Trains until the last step, or until it should stop or yield. Errors: see Trainer::run().
  Result<TrainOutcome> run();

 private:
  using Moment = std::optional<std::chrono::steady_clock::time_point>;
  // The reasons to end the training before its last step.
  enum class Ending { none, stopped, aborted, yields };
  // Whether steps may begin.
  enum class Stepping { allowed, held, aborted };

  Status restore(const TrainingStart& start);
  Status open_folder(const TrainingStart& start);
  Status open_log(const TrainingStart& start);

  Result<Ending> train_epoch(TrainOutcome& outcome);
  Status train_to(int64_t fence);
  Result<int64_t> allow(int64_t allowed, int64_t fence, Moment& stop_due);
  Status wait_for_step(Moment& stop_due);
  Status consume(int64_t step);
  void note_skipped(int64_t step, double loss);
  Status not_finite(int64_t step, double loss);
  Result<Ending> evaluate(TrainOutcome& outcome);

  bool may_yield() const;
  bool is_to_yield() const;
  Status retry_for_room(const std::function<Status()>& attempt);
  Result<TrainOutcome> yield();
  Result<TrainOutcome> end_aborted();
  Result<TrainOutcome> finish(TrainOutcome outcome);
  Status write_weights(TrainOutcome& outcome);

  const TrainingParts& parts_;
  JobPlans& plans_;
  JobVariables& variables_;
  JobCheckpoints& checkpoints_;
  TrainObserver& observer_;
  const std::function<bool()> stop_;
  EpochProgress progress_;
  Evaluator evaluator_;
  int64_t done_ = 0;  // steps of the job
  Stepping stepping_ = Stepping::allowed;
  bool lost_some_ = false;  // of a quorum's replicas
  std::unique_ptr<TrainingSteps> steps_;
  std::unique_ptr<StepLog> log_;
  std::unique_ptr<Checkpointer> checkpointer_;  // destroyed first: it uses the log
};

}  // namespace leat
