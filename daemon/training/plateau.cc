#include "daemon/training/plateau.h"

#include <algorithm>

namespace leat {

Plateau::Plateau(const Job& job) {
  exists_ = !job.program && find_schedule(job.lr_scheduler.name)->looks_at_epochs;
  if (!exists_) return;
  const SettingValues& values = job.lr_scheduler.values;
  monitor_ = job.plateau;
  per_validation_ = values.integer("per") == 1;
  factor_ = values.number("factor");
  threshold_ = values.number("threshold");
  relative_ = values.integer("threshold_mode") == 0;
  patience_ = values.integer("patience");
  cooldown_ = values.integer("cooldown");
  least_ = values.number("min_learning_rate");
  epsilon_ = values.number("epsilon");
  start_ = rate_ = job.optimizer.learning_rate;
  if (monitor_.rises) best_ = -best_;
}

bool Plateau::is_better(double number) const {
  if (monitor_.rises) return number > (relative_ ? best_ * (threshold_ + 1) : best_ + threshold_);
  return number < (relative_ ? best_ * (1 - threshold_) : best_ - threshold_);
}

bool Plateau::take(double number) {
  if (!exists_) return false;
  if (is_better(number)) {
    best_ = number;
    bad_ = 0;
  } else {
    ++bad_;
  }
  // For a while after a change nothing counts as bad.
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ <= patience_) return false;
  bad_ = 0;
  cooling_ = cooldown_;
  return reduce();
}

// A change of less than epsilon is left out.
bool Plateau::reduce() {
  const double rate = std::max(rate_ * factor_, least_);
  if (rate_ - rate <= epsilon_) return false;
  rate_ = rate;
  return true;
}

}  // namespace leat
