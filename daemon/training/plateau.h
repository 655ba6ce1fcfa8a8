// The rate of a training whose schedule looks at the numbers of epochs (lr_scheduler: plateau).
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "daemon/metrics/epoch_result.h"
#include "daemon/spec/job.h"

namespace leat {

// A function of the results of epochs alone, or with `per: validation` of those of validations, so
// a training that continues has the rates of one that was never stopped. The rule is that of
// torch.optim.lr_scheduler.ReduceLROnPlateau: after more than `patience` results in a row without a
// better number the rate is multiplied by `factor`.
// Threads: a value.
class Plateau {
 public:
  // A job with another schedule gets one whose rate never changes.
  explicit Plateau(const Job& job);

  bool exists() const { return exists_; }
  // Each validation counts, and no epoch.
  bool per_validation() const { return per_validation_; }
  // Takes the next epoch, or the next validation. True if the rate falls after it. A NaN, and a
  // number that is not there, is never better.
  bool take(const EpochResult& result) { return take(result.number(monitor_.metric)); }
  bool take(double number);
  // The value of kPlateauCut: optimizer.learning_rate is divided by 1 more than this.
  double cut() const { return start_ / rate_ - 1; }
  // The rate of steps after the warm-up.
  double learning_rate() const { return rate_; }
  const std::string& metric() const { return monitor_.metric; }

 private:
  bool is_better(double number) const;
  bool reduce();

  bool exists_ = false, per_validation_ = false;
  Job::Monitor monitor_;
  double factor_ = 1, threshold_ = 0, least_ = 0, epsilon_ = 0;
  bool relative_ = true;
  int64_t patience_ = 0, cooldown_ = 0;
  double start_ = 1, rate_ = 1;
  double best_ = std::numeric_limits<double>::infinity();
  int64_t bad_ = 0, cooling_ = 0;  // epochs, or validations
};

}  // namespace leat
