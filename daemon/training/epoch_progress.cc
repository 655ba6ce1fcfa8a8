#include "daemon/training/epoch_progress.h"

#include <algorithm>
#include <utility>

namespace leat {
namespace {

using Seconds = std::chrono::duration<double>;

// The least time between two rates.
constexpr Seconds kBetweenRates{1};

}  // namespace

void EpochProgress::add(double loss, std::optional<double> accuracy,
                        const std::vector<double>& more, bool skipped) {
  // A skipped step's loss may be NaN, which would spoil the mean of the whole epoch.
  if (!skipped) {
    loss_sum_ += loss;
    accuracy_sum_ += accuracy.value_or(0);
    ++averaged_;
    for (size_t i = 0; i < std::min(more.size(), sums_.size()); ++i) {
      sums_[i].sum += more[i];
      ++sums_[i].steps;
    }
  }
  ++consumed_;
  const double n = static_cast<double>(averaged_);
  last.loss = loss;
  last.accuracy = accuracy;
  last.mean_loss = computed(loss_sum_ / n);
  last.mean_accuracy.reset();
  if (accuracy) last.mean_accuracy = computed(accuracy_sum_ / n);
  take_means();
}

void EpochProgress::recall(double loss, std::optional<double> accuracy,
                           const std::vector<double>& more) {
  last = {.loss = loss, .accuracy = accuracy, .mean_loss = loss, .mean_accuracy = accuracy};
  for (size_t i = 0; i < std::min(more.size(), sums_.size()); ++i)
    last.mean_more.push_back({sums_[i].name, computed(more[i])});
}

// The names are copied once, unless a step of an older version lacks some.
void EpochProgress::take_means() {
  size_t known = 0;
  for (const Sum& each : sums_) {
    if (each.steps == 0) continue;
    if (known == last.mean_more.size()) last.mean_more.emplace_back();
    NamedNumber& mean = last.mean_more[known++];
    if (mean.name != each.name) mean.name = each.name;
    mean.value = computed(each.sum / static_cast<double>(each.steps));
  }
  last.mean_more.resize(known);
}

void EpochProgress::count_trained(double dropped_chunks) {
  dropped_ += dropped_chunks;
  ++total_.trained;
}

void EpochProgress::begin_training() {
  // Evaluations and waits for checkpoints lie between end_training() and this, so no rate counts
  // them.
  begun_ = rated_at_ = std::chrono::steady_clock::now();
  rated_ = total_.trained;
}

void EpochProgress::end_training() {
  total_.seconds += Seconds(std::chrono::steady_clock::now() - begun_).count();
}

std::optional<double> EpochProgress::rate_if_due() {
  const auto now = std::chrono::steady_clock::now();
  const Seconds passed = now - rated_at_;
  if (passed < kBetweenRates) return std::nullopt;
  rated_at_ = now;
  const int64_t steps = total_.trained - std::exchange(rated_, total_.trained);
  return static_cast<double>(steps * batch_) / passed.count();
}

// An epoch of fewer rows than a step takes may have no step of its own: its mean is then that of
// the last step. The same holds where the rows of its steps are lost.
EpochResult EpochProgress::end_epoch(int64_t step, const std::optional<Evaluation>& validation) {
  EpochResult result;
  result.epoch = static_cast<uint32_t>(epoch);
  result.step = static_cast<uint64_t>(step);
  result.loss = consumed_ > 0 ? last.mean_loss : last.loss;
  result.accuracy = (consumed_ > 0 ? last.mean_accuracy : last.accuracy).value_or(kNoNumber);
  result.more = last.mean_more;
  if (validation) {
    result.val_loss = computed(validation->loss);
    if (validation->accuracy) result.val_accuracy = computed(*validation->accuracy);
    for (const NamedNumber& each : validation->metrics)
      result.more.push_back({"val_" + each.name, computed(each.value)});
  }
  // The totals go on over all epochs; the difference is that of this one.
  const Total before = std::exchange(before_, total_);
  result.seconds = total_.seconds - before.seconds;
  if (result.seconds > 0)
    result.samples_per_second =
        static_cast<double>((total_.trained - before.trained) * batch_) / result.seconds;
  loss_sum_ = accuracy_sum_ = 0;
  for (Sum& each : sums_) each = {each.name};
  averaged_ = consumed_ = 0;
  return result;
}

double EpochProgress::samples_per_second() const {
  if (total_.seconds <= 0) return 0;
  return static_cast<double>(total_.trained * batch_) / total_.seconds;
}

}  // namespace leat
