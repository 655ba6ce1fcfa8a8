// The loop of a training: steps, epochs, evaluations and checkpoints, until its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/training/best_epoch.h"
#include "daemon/training/checkpointer.h"
#include "daemon/training/epoch_progress.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/job_variables.h"
#include "daemon/training/phase_times.h"
#include "daemon/training/step_log.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"
#include "daemon/training/training_start.h"
#include "daemon/training/training_steps.h"
#include "daemon/training/validation.h"
#include "ops/formats/safetensors.h"

namespace leat {

// One attempt to train a job. Trainer makes it in Trainer::run(), after the plans are compiled and
// the start is found, and keeps it until the trainer is destroyed.
//
// The thread of run() does everything here: it allows the hosts steps ahead, consumes the fetches
// of finished steps in order, and pauses the steps for checkpoints and evaluations only where the
// hosts cannot do these beside them. The hosts compute meanwhile, and a CheckpointTask writes.
// Threads: one. open() is called once, then run() once.
class TrainingLoop {
 public:
  // All outlive it. `stop`: the training should end between two steps. It is asked often and must
  // not block.
  TrainingLoop(const TrainingParts& parts, JobPlans& plans, JobVariables& variables,
               JobCheckpoints& checkpoints, TrainObserver& observer, std::function<bool()> stop);

  // Starts the runs, and brings the variables, the folder and the metrics to `start`. Blocks.
  // Calls `forget` when the first values of the variables are not needed any more. Changes the
  // run's folder last, when all that can fail on the hosts has succeeded. Waits up to ten minutes
  // for room if the disk is full. The phases that `times` gets are "runs", "variables" and
  // "folder".
  Status open(TrainingStart start, const std::function<void()>& forget, PhaseTimes& times);
  // Trains until the last step, or until it should stop or yield. Errors: see Trainer::run(). The
  // observer hears started() first. REQUIRES: open() returned ok.
  Result<TrainOutcome> run();

 private:
  using Moment = std::optional<std::chrono::steady_clock::time_point>;
  // The reason to end the training before its last step; none: it goes on. aborted: a stop took
  // longer than TrainOptions::stop_grace.
  enum class Ending { none, stopped, aborted, yields };
  // Whether steps may begin. held: the hosts stop at a common step, because the training yields;
  // aborted: the runs have ended.
  enum class Stepping { allowed, held, aborted };

  // Brings the variables of all hosts to the start: copies them between hosts, or writes those of
  // the checkpoint. Does nothing for a job that begins at step 0.
  Status restore(const TrainingStart& start);
  // Sets refused checkpoints aside, and writes the folder's job file and its copy of the graph.
  // Returns what checkpoints are to say of their origin.
  Result<Provenance> open_folder(const TrainingStart& start);
  // Adds the rows that hosts hold, and warns the observer of rows that are lost.
  Status open_log(const TrainingStart& start);

  // Trains from done_ to the end of the current epoch, evaluates, and ends the epoch in log and
  // observer.
  Result<Ending> train_epoch(TrainOutcome& outcome);
  // Trains up to step `fence`, or less far: see the .cc for the reasons. The hosts stand still
  // afterwards.
  Status train_to(int64_t fence);
  // Returns the new limit of the steps, which hosts may do without asking again.
  Result<int64_t> allow(int64_t allowed, int64_t fence, Moment& stop_due);
  // Waits for step done_ in pieces of kStopPoll, so that a stop or a yield is noticed soon.
  Status wait_for_step(Moment& stop_due);
  // Takes the fetches of a finished step into sums, log and observer. Fails for a loss that is not
  // finite if the job asks for that.
  Status consume(int64_t step);
  // Tells the observer how long each host has waited for its input, and how far it reads ahead.
  void tell_input_waits();
  // Warns of the 1st, 10th, 100th ... skipped step of the job.
  void note_skipped(int64_t step, double loss);
  // Finds the cause with NanSearch; returns the error that ends the job.
  Status not_finite(int64_t step, double loss);
  // Evaluates if an evaluation is due after step done_ and the log does not have it yet.
  Result<Ending> evaluate_if_due(TrainOutcome& outcome);
  // Puts the result into `outcome`, and into log and observer where the job has rows for it; or
  // returns Ending::yields without a result.
  Result<Ending> evaluate(TrainOutcome& outcome);

  // True if the training is asked to yield and can do so without waiting for the disk.
  bool may_yield() const;
  // The same, but false once all steps are done: a training at its end finishes instead.
  bool is_to_yield() const;
  // Calls `attempt` again while it returns resource_exhausted, for ten minutes at most, and tells
  // the observer what the training waits for.
  Status retry_for_room(const std::function<Status()>& attempt);
  // Saves a checkpoint if the request says so, and the log in any case. The hosts keep their
  // variables.
  Result<TrainOutcome> yield();
  // The outcome has no weights: the hosts stopped within different steps.
  Result<TrainOutcome> end_aborted();
  // Writes the last checkpoint and, unless the training was interrupted, the weights.
  Result<TrainOutcome> finish(TrainOutcome outcome);
  // The optimizer's state is no part of the file and its hash.
  Status write_weights(TrainOutcome& outcome);
  // Writes those that are not averaged into a file beside.
  Status write_raw_weights();
  // The job's weights are averages of those of its steps.
  bool has_average() const { return parts_.job.optimizer.ema > 0 && !parts_.job.program; }
  // The weights of the hosts, or their averages, with the metadata of a file of them.
  Result<SafeTensors> weights();
  // Takes a result into the choice of the best epoch and into early stopping, and keeps the weights
  // of a best epoch. Comes before the log has the epoch: weights that the log knows of exist.
  Status watch(const EpochResult& result);
  // Gives the hosts the rate that the epochs of the log have led to.
  Status set_rate();
  Status cut_rate();
  // The same as watch() for the epochs that an earlier training ended, without the weights.
  Status recall_epochs();

  const TrainingParts& parts_;
  JobPlans& plans_;
  JobVariables& variables_;
  JobCheckpoints& checkpoints_;
  TrainObserver& observer_;
  const std::function<bool()> stop_;
  EpochProgress progress_;
  EpochWatch watch_;
  Validation validation_;
  // The steps of the job that are done and consumed, those of earlier attempts included.
  int64_t done_ = 0;
  Stepping stepping_ = Stepping::allowed;
  // A quorum goes on without some of its replicas. It cannot evaluate then, since an evaluation
  // needs all hosts.
  bool lost_some_ = false;
  std::unique_ptr<TrainingSteps> steps_;
  std::unique_ptr<StepLog> log_;
  // Declared last, so that it is destroyed first: it uses the log.
  std::unique_ptr<Checkpointer> checkpointer_;
};

}  // namespace leat
