// The best epoch of a training, and when to stop it. Both are functions of the results of its
// epochs alone, so a training that continues decides as one that was never stopped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/metrics/epoch_result.h"
#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Files of a run's folder.
inline constexpr std::string_view kBestWeights = "best_weights.safetensors";
inline constexpr std::string_view kConfusionMatrix = "confusion_matrix.json";

// The best of a series of epochs. Threads: a value.
class BestEpoch {
 public:
  // An epoch is better than the best one before if its number is by more than `min_delta`. A NaN,
  // and a number that is not there, is never better.
  explicit BestEpoch(Job::Monitor monitor, double min_delta = 0)
      : monitor_(std::move(monitor)), min_delta_(min_delta) {}

  // Takes the next epoch. True if it is the best so far.
  bool take(const EpochResult& result);
  // The number of epochs since the best one; of all epochs if none is best.
  int64_t since() const { return since_; }
  const std::optional<EpochResult>& best() const { return best_; }
  const std::string& metric() const { return monitor_.metric; }

 private:
  Job::Monitor monitor_;
  double min_delta_;
  std::optional<EpochResult> best_;
  int64_t since_ = 0;
};

// Both for a job. TrainingLoop owns it. Threads: one.
class EpochWatch {
 public:
  explicit EpochWatch(const Job& job);

  // Takes the next epoch. True if the job keeps the weights of its best epoch, and this is it.
  bool take(const EpochResult& result);
  // The job ends after the last epoch that was taken.
  bool stops() const { return stopping_ && stopping_->since() >= patience_; }
  // True if the job asks for either.
  bool watches() const { return stopping_ || kept_; }
  // The epoch whose weights the job keeps.
  std::optional<EpochResult> best() const;
  // "stopped early: val_loss was best in epoch 4, 0.3120, and in none of the 3 epochs since". For
  // people. REQUIRES: stops().
  std::string reason() const;

 private:
  std::optional<BestEpoch> stopping_, kept_;
  int64_t patience_ = 0;
};

// Writes kConfusionMatrix into the folder of a run, atomically: one JSON object with "epoch",
// "step", "classes" and "matrix", a list of rows. Row i has the labels of class i, by the class
// that the model takes them for. `matrix`: [C,C].
Status write_confusion(Files& files, const std::string& folder, const EpochResult& result,
                       const std::vector<double>& matrix);

}  // namespace leat
