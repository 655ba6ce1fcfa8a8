// The progress of a training within its epochs: sums, means and rates.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/metrics/epoch_result.h"
#include "daemon/training/train_observer.h"

namespace leat {

// TrainingLoop owns it. The sums run in the order of the steps in f64, so the means do not depend
// on timing; seconds and rates do.
// Threads: one.
class EpochProgress {
 public:
  // `batch`: the rows of a step, over all shards. `more`: the names of the numbers that each step
  // has beside the loss and the accuracy.
  EpochProgress(int64_t batch, const std::vector<std::string>& more) : batch_(batch) {
    for (const std::string& name : more) sums_.push_back({name});
  }

  // The current epoch, counted from 1, and the steps of the job before it.
  int64_t epoch = 1;
  int64_t epoch_begin = 0;
  // The result of the last step, with the means over its epoch.
  StepResult last = {.loss = kNoNumber, .mean_loss = kNoNumber};

  // Adds the result of a step of the epoch. The means leave out skipped steps. `last` then has the
  // result of the step and the new means. A step that was recalled from the log is added, too, but
  // not counted as trained here. `more`: a value for each name; none if they are not known.
  void add(double loss, std::optional<double> accuracy, const std::vector<double>& more,
           bool skipped);
  // Makes a step before this epoch the last one: there is no mean yet.
  void recall(double loss, std::optional<double> accuracy, const std::vector<double>& more);
  // Counts a step that this process trained, and the chunks that came too late for it.
  // `dropped_chunks`: 0 unless the job has a quorum.
  void count_trained(double dropped_chunks);

  // Time counts as training from begin_training() to end_training().
  void begin_training();
  void end_training();
  // Samples a second since the last call that returned a rate, about once a second. The time since
  // begin_training() counts at first. Nothing within a second of the last rate.
  std::optional<double> rate_if_due();

  // The result of the epoch, which ends after `step` steps of the job; the sums begin again. If no
  // step ended in this epoch, because it has fewer rows than a step takes, its means are those of
  // the last step. seconds and samples_per_second cover only the part that this process trained.
  EpochResult end_epoch(int64_t step, const std::optional<Evaluation>& validation);
  // Over all epochs; 0 if no time was spent.
  double samples_per_second() const;
  // Chunks that came too late, over all epochs.
  int64_t dropped_chunks() const { return static_cast<int64_t>(dropped_); }

 private:
  // Both over all epochs.
  struct Total {
    double seconds = 0;   // spent training
    int64_t trained = 0;  // steps of this process
  };

  // Of a number beside the loss: some steps may lack it.
  struct Sum {
    std::string name = {};
    double sum = 0;
    int64_t steps = 0;
  };
  // Sets last.mean_more: the means of the epoch so far, of the numbers that are known.
  void take_means();

  const int64_t batch_;
  std::vector<Sum> sums_;
  double loss_sum_ = 0, accuracy_sum_ = 0;
  int64_t averaged_ = 0;  // steps in the sums
  int64_t consumed_ = 0;  // steps of the epoch, skipped ones too
  double dropped_ = 0;
  Total total_;
  Total before_;  // the epoch
  // The last begin_training(), and the last rate.
  std::chrono::steady_clock::time_point begun_{}, rated_at_{};
  int64_t rated_ = 0;  // steps that this process had trained at rated_at_
};

}  // namespace leat
