// The rows of metrics.jsonl: written from the fetches of steps, and read again when a training
// continues.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/metrics/metrics_log.h"
#include "daemon/training/epoch_progress.h"
#include "daemon/training/job_variables.h"
#include "daemon/training/plateau.h"
#include "daemon/training/training_parts.h"
#include "daemon/training/training_steps.h"

namespace leat {

// The fetches of a training step.
struct StepValues {
  // All fetches, in the order of the plan.
  std::vector<double> fetched;
  // The first fetch; absent if a program fetches nothing. A NaN that was computed is kept apart
  // from a number that is absent, see computed().
  double loss = kNoNumber;
  std::optional<double> accuracy;
  std::vector<double> more;  // as step_numbers() names them
  // Of a job with a quorum: chunks of rows that came too late for the step.
  double dropped_chunks = 0;
  // Of a job with on_nan: skip or a dynamic loss scale. The hosts left out the update of the step.
  bool skipped = false;
};

// Gives the fetches of a training plan their names, and owns the file of the metrics. The names and
// their order follow from the job: loss, accuracy, step_numbers() and loss_scale, or the fetches of
// a program, then dropped and skipped where the job has them.
// Threads: as MetricsLog.
class StepLog {
 public:
  // Opens the log as MetricsLog::open() does, with the rows of the first `done` steps. `parts`
  // outlives it.
  static Result<std::unique_ptr<StepLog>> open(const TrainingParts& parts, int64_t done,
                                               const std::optional<MetricsDigest>& expected);

  MetricsLog& metrics() { return *metrics_; }
  // The rate of the steps after those of the log.
  const Plateau& plateau() const { return plateau_; }
  const MetricsLog& metrics() const { return *metrics_; }

  // The fetches of a step (counted from 0) that is finished. REQUIRES: as fetched_scalar().
  StepValues values(TrainingSteps& steps, int64_t step) const;
  // Adds the row of a step. `rate`: samples per second, if there is a new rate. `step` counts from
  // 0, the row's number from 1. The learning rate is added to the row where each step has one. With
  // weights of f32, numbers are written with the digits of a float, so a reader gets the same bits.
  Status add(int64_t step, const std::vector<double>& fetched, std::optional<double> rate = {});
  // Adds the row of an epoch. True if the learning rate changes after it.
  Result<bool> add(const EpochResult& epoch);
  // Adds the row of a validation after the last step. True if the learning rate changes after it.
  // REQUIRES: the step has no such row.
  Result<bool> add(const ValidationResult& result);
  // Adds the rows of done steps that the log lacks and the memory of hosts has. Flushes the log. A
  // row that neither has stays missing.
  Status add_held(const HeldStep& held);

  // Tells the observer of the epochs that have ended and of the last step, and brings `progress` to
  // the sums of the current epoch. REQUIRES: `done` > 0 steps are done.
  Status recall(int64_t done, EpochProgress& progress, TrainObserver& observer) const;
  // The last step of the epoch is among the first `done`, and the log has the epoch's row if it is
  // exactly the last of them.
  bool has_ended(int64_t epoch, int64_t done) const;

 private:
  StepLog(const TrainingParts& parts, std::unique_ptr<MetricsLog> metrics);
  // Includes rows that are not written to the file yet.
  Result<LoggedMetrics> rows_after(int64_t step) const;

  // The values of step_numbers() in a row of the file; none in a row of an older version.
  std::vector<double> more_of(const LoggedMetrics::Row& row) const;
  bool logs_rate() const;

  const TrainingParts& parts_;
  const std::unique_ptr<MetricsLog> metrics_;
  Plateau plateau_;
  std::vector<std::string> more_;        // step_numbers()
  std::vector<std::string_view> names_;  // of the fetches
  size_t first_more_ = 0;                // of them
  size_t numbers_ = 0;  // the first of them, which the job or its program asked for
};

}  // namespace leat
