#include "daemon/cli/follower.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "daemon/base/terminal.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The values in the order in which they are shown. An unknown one is left out.
std::vector<NamedValue> known_values(double loss, double accuracy, double val_loss,
                                     double val_accuracy) {
  std::vector<NamedValue> values;
  const auto add = [&](std::string_view name, double value) {
    if (is_known(value)) values.push_back({name, value});
  };
  add("loss", loss);
  add("accuracy", accuracy);
  add("val_loss", val_loss);
  add("val_accuracy", val_accuracy);
  return values;
}

// The number of epochs; at least 1, so that it can be divided by.
uint64_t epochs_of(const ProgressReport& last) { return std::max(last.epochs, 1u); }

// Returns the steps that are done when an epoch ends. A batch may contain rows of two epochs.
uint64_t end_of(uint64_t epoch, const ProgressReport& last) {
  if (last.rows_per_epoch > 0 && last.rows_per_step > 0) {
    const uint64_t rows = epoch * last.rows_per_epoch;
    return std::min(last.steps, (rows + last.rows_per_step - 1) / last.rows_per_step);
  }
  // If the rows are unknown, each epoch gets the same share of the steps, rounded up.
  return (epoch * last.steps + epochs_of(last) - 1) / epochs_of(last);
}

}  // namespace

std::vector<NamedValue> values_of(const EpochResult& result) {
  auto values = known_values(result.loss, result.accuracy, result.val_loss, result.val_accuracy);
  for (const NamedNumber& each : result.more) values.push_back({each.name, each.value});
  return values;
}

// Without the validation, which belongs to the previous epoch.
std::vector<NamedValue> values_of(const ProgressReport& report) {
  return known_values(report.loss, report.accuracy, kNoNumber, kNoNumber);
}

Follower::Follower(std::ostream& out, const Clock& clock, bool redraw, int width)
    : out_(out), clock_(clock), redraw_(redraw), line_(out, clock, redraw, width) {}

void Follower::show(const JobView& job) {
  const JobCondition& now = job.condition;
  if (now.state != state_ || now.reason != reason_) show_state(now);
  const bool over = has_ended(now.state);
  // The first view counts as known, except the last epoch of a job that has ended: it is the
  // result.
  if (!std::exchange(begun_, true)) {
    ended_ = job.progress.last.ended.epoch;
    if (over && ended_ > 0) --ended_;
  }
  for (const EpochResult& ended : job.progress.epochs) {
    if (ended.epoch > ended_) show_ended(ended, job.progress.last);
  }
  if (over)
    line_.break_line();
  else
    show_running(job.progress.last);
}

// Prints the state on a line of its own. The line of the epoch goes on below it.
void Follower::show_state(const JobCondition& now) {
  line_.break_line();
  state_ = now.state;
  reason_ = now.reason;
  out_ << name_of(now.state);
  if (!now.reason.empty()) out_ << ": " << printable(now.reason);
  if (now.state == JobState::running) out_ << " on " << join(now.workers, ", ");
  out_ << "\n" << std::flush;
}

// Shows the time that the training took, whenever the report arrives.
void Follower::show_ended(const EpochResult& ended, const ProgressReport& last) {
  const uint64_t first = end_of(ended.epoch - 1, last);
  // end_of() may be an estimate, so it is kept from being greater than the step that the master
  // reports.
  const auto steps = static_cast<int64_t>(ended.step - std::min(first, ended.step));
  const auto values = values_of(ended);
  const auto now = clock_.steady();
  // If the epoch is not on the screen yet, it begins now, but at a time in the past: its line then
  // has the times of the training.
  if (!redraw_ || running_ != ended.epoch) {
    const std::chrono::duration<double> took(std::isfinite(ended.seconds) ? ended.seconds : 0);
    const double timed = took.count() * ended.samples_per_second /
                         static_cast<double>(std::max<uint64_t>(last.samples_per_step, 1));
    const int64_t steps_timed =
        std::isfinite(timed) ? std::min(steps, static_cast<int64_t>(std::llround(timed))) : 0;
    line_.begin_epoch(ended.epoch, static_cast<int64_t>(epochs_of(last)), steps,
                      steps - steps_timed, static_cast<int64_t>(last.samples_per_step),
                      now - std::chrono::duration_cast<Clock::Steady::duration>(took));
  }
  line_.update(steps, values, now);
  line_.end_epoch(values);
  ended_ = ended.epoch;
  running_ = 0;
}

void Follower::show_running(const ProgressReport& last) {
  // Nothing is known of the running epoch yet, or its last line is printed already.
  if (last.step == 0 || last.steps == 0 || last.epochs == 0 || last.epoch <= ended_) return;
  const uint64_t first = end_of(last.epoch - 1, last), end = end_of(last.epoch, last);
  const uint64_t step = std::clamp(last.step, first, end);
  if (running_ != last.epoch || last.step < step_) {  // a recovery may have gone back
    line_.begin_epoch(last.epoch, static_cast<int64_t>(epochs_of(last)),
                      static_cast<int64_t>(end - first), static_cast<int64_t>(step - first),
                      static_cast<int64_t>(last.samples_per_step), clock_.steady());
    running_ = last.epoch;
  }
  step_ = last.step;
  line_.update(static_cast<int64_t>(step - first), values_of(last), clock_.steady());
}

}  // namespace leat
