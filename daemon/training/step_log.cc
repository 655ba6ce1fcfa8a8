#include "daemon/training/step_log.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/spec/read_recipes.h"
#include "daemon/training/train_specs.h"

namespace leat {
namespace {

constexpr std::string_view kDropped = "dropped";
constexpr std::string_view kAccuracy = "accuracy";

// The names are those of the graph, which outlives them.
std::vector<std::string_view> output_names(const Graph& graph) {
  std::vector<std::string_view> names;
  for (const ValueId output : graph.outputs()) names.push_back(graph.value_name(output));
  return names;
}

}  // namespace

Result<std::unique_ptr<StepLog>> StepLog::open(const TrainingParts& parts, int64_t done,
                                               const std::optional<MetricsDigest>& expected) {
  LEAT_ASSIGN_OR_RETURN(auto metrics,
                        MetricsLog::open(parts.files, parts.metrics_path(), done, expected));
  std::unique_ptr<StepLog> log(new StepLog(parts, std::move(metrics)));
  if (!log->plateau_.exists() || done == 0) return log;
  const auto read = log->plateau_.per_validation() ? read_validations : read_epochs;
  LEAT_ASSIGN_OR_RETURN(const auto results, read(parts.files, parts.metrics_path(), done));
  for (const EpochResult& result : results) log->plateau_.take(result);
  return log;
}

StepLog::StepLog(const TrainingParts& parts, std::unique_ptr<MetricsLog> metrics)
    // The order of the names is the order of the fetches in the training plan.
    : parts_(parts),
      metrics_(std::move(metrics)),
      plateau_(parts.job),
      more_(step_numbers(parts.job)) {
  if (parts.job.program) {
    names_.assign(parts.job.program->fetch.begin(), parts.job.program->fetch.end());
    if (names_.empty()) names_ = output_names(parts.input.model.training);
  } else {
    names_ = {"loss"};
  }
  if (has_accuracy(parts.job)) names_.push_back(kAccuracy);
  first_more_ = names_.size();
  names_.insert(names_.end(), more_.begin(), more_.end());
  if (parts.job.scales_loss_dynamically()) names_.push_back("loss_scale");
  numbers_ = names_.size();
  if (parts.rules.drops_rows()) names_.push_back(kDropped);
  if (parts.skips()) names_.push_back(kSkipped);
}

StepValues StepLog::values(TrainingSteps& steps, int64_t step) const {
  StepValues values;
  for (uint32_t i = 0; i < names_.size(); ++i) {
    double value = steps.fetched_scalar(i, step);
    if (i < numbers_) value = computed(value);
    if (i == 0) values.loss = value;
    if (has_accuracy(parts_.job) && names_[i] == kAccuracy)
      values.accuracy = value = computed(value);
    if (i >= first_more_ && i < first_more_ + more_.size()) values.more.push_back(value);
    if (i >= numbers_ && names_[i] == kDropped) values.dropped_chunks = value;
    if (i >= numbers_ && names_[i] == kSkipped) values.skipped = std::isnan(value);
    values.fetched.push_back(value);
  }
  return values;
}

Status StepLog::add(int64_t step, const std::vector<double>& fetched, std::optional<double> rate) {
  const bool f32 = parts_.job.master_dtype() == DType::f32;
  std::vector<StepMetric> row;
  // With precision f32 a value is written with the digits of a float, so a reader gets the same
  // bits.
  const auto add = [&](std::string_view name, double value, bool narrow) {
    if (narrow)
      row.push_back({name, static_cast<float>(value)});
    else
      row.push_back({name, value});
  };
  for (size_t i = 0; i < std::min(names_.size(), fetched.size()); ++i) {
    if (i >= numbers_ && names_[i] == kSkipped)  // the guard's value is 0 or NaN
      add(kSkipped, std::isnan(fetched[i]) ? 1 : 0, false);
    else
      add(names_[i], fetched[i], f32 && i < numbers_);
  }
  // No host fetches it: it follows from the schedule and the step.
  if (logs_rate()) add("learning_rate", learning_rate_at(parts_.spec, step, plateau_.cut()), f32);
  return metrics_->append(step + 1, row, rate);
}

bool StepLog::logs_rate() const {
  return parts_.rules.has_learning_rate_of_step() && !parts_.job.program;
}

std::vector<double> StepLog::more_of(const LoggedMetrics::Row& row) const {
  if (row.values.size() != names_.size() + (logs_rate() ? 1 : 0)) return {};
  const auto begin = row.values.begin() + static_cast<std::ptrdiff_t>(first_more_);
  return {begin, begin + static_cast<std::ptrdiff_t>(more_.size())};
}

Result<bool> StepLog::add(const EpochResult& epoch) {
  LEAT_RETURN_IF_ERROR(metrics_->append(epoch));
  return !plateau_.per_validation() && plateau_.take(epoch);
}

// The numbers are means in f64, as those of epochs.
Result<bool> StepLog::add(const ValidationResult& result) {
  std::vector<StepMetric> row;
  double watched = kNoNumber;
  for (const auto& [name, value] : result.numbers) {
    row.push_back({name, computed(value)});
    if (name == plateau_.metric()) watched = computed(value);
  }
  LEAT_RETURN_IF_ERROR(metrics_->append_validation(row));
  return plateau_.per_validation() && plateau_.take(watched);
}

Status StepLog::add_held(const HeldStep& held) {
  // Rows count from 1 and steps from 0, so the first step without a row is last_step().
  for (int64_t step = metrics_->last_step(); step < held.step; ++step) {
    const auto row = held.rows.find(step);
    if (row != held.rows.end()) LEAT_RETURN_IF_ERROR(add(step, row->second));
  }
  return metrics_->flush();
}

bool StepLog::has_ended(int64_t epoch, int64_t done) const {
  const TrainingLength& length = parts_.length;
  if (epoch > length.epochs || length.end_of(epoch) > done) return false;
  // A step beyond the end was done, so the epoch had ended before. At the end itself the row
  // decides: the training may have stopped between the last step and the evaluation.
  if (length.end_of(epoch) < done) return true;
  const auto& epochs = metrics_->epochs();
  return std::any_of(epochs.begin(), epochs.end(), [&](const EpochResult& result) {
    return result.epoch == epoch && static_cast<int64_t>(result.step) == done;
  });
}

// The rows after `step`: those of the file, and those that it does not have yet.
Result<LoggedMetrics> StepLog::rows_after(int64_t step) const {
  const bool f32 = parts_.job.master_dtype() == DType::f32;
  // The order matters: a row that moves to the file between the two reads is in at least one.
  const LoggedMetrics unwritten = metrics_->unwritten(step, f32);
  LEAT_ASSIGN_OR_RETURN(LoggedMetrics logged,
                        read_last_metrics(parts_.files, parts_.metrics_path(), step, f32));
  for (const LoggedMetrics::Row& row : unwritten.tail) {
    if (logged.tail.empty() || row.step > logged.tail.back().step) logged.tail.push_back(row);
  }
  return logged;
}

Status StepLog::recall(int64_t done, EpochProgress& progress, TrainObserver& observer) const {
  // The observer first hears of whole epochs, then of the last step.
  for (const EpochResult& epoch : metrics_->epochs()) observer.epoch_recalled(epoch);
  // The rows of the current epoch, and at least the last one.
  const int64_t begin = parts_.length.until_epoch(progress.epoch - 1);
  LEAT_ASSIGN_OR_RETURN(const LoggedMetrics logged, rows_after(std::min(begin, done - 1)));
  const bool with_accuracy = has_accuracy(parts_.job);
  for (const LoggedMetrics::Row& row : logged.tail) {
    if (row.values.empty()) continue;
    std::optional<double> accuracy;
    if (with_accuracy && row.values.size() > 1) accuracy = row.values[1];
    // The sums of the current epoch begin after `begin`; an earlier row only gives the last result.
    if (row.step > begin)
      progress.add(row.values[0], accuracy, more_of(row), row.skipped);
    else
      progress.recall(row.values[0], accuracy, more_of(row));
    if (row.step != done) continue;
    StepResult last = progress.last;
    last.skipped_steps = metrics_->skipped_steps();
    // If the step ended an epoch, its means are those of that epoch.
    if (row.step <= begin && !metrics_->epochs().empty()) {
      const EpochResult& ended = metrics_->epochs().back();
      last.mean_loss = ended.loss;
      if (accuracy) last.mean_accuracy = ended.accuracy;
      for (NamedNumber& each : last.mean_more) each.value = ended.number(each.name);
    }
    const bool ended_one = row.step <= begin && progress.epoch > 1;
    observer.recalled(progress.epoch - (ended_one ? 1 : 0), parts_.length.epochs, last);
  }
  return {};
}

}  // namespace leat
