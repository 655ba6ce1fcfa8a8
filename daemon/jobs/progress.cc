#include "daemon/jobs/progress.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kWindow{20000};
constexpr milliseconds kSpacing{500};

// As numbers of 64 bits and back, so that no bit is lost.
template <typename Number>
uint64_t to_bits(Number number) {
  if constexpr (std::is_same_v<Number, double>) {
    return std::bit_cast<uint64_t>(number);
  } else {
    return static_cast<uint64_t>(number);
  }
}

template <typename Number>
Number from_bits(uint64_t bits) {
  if constexpr (std::is_same_v<Number, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<Number>(bits);
  }
}

// Calls `visit` with each number of a report. The order is that of the journal's rows and is never
// changed; there are as many as ReportNumbers has.
template <typename Report, typename Visit>
void visit_all(Report& report, Visit visit) {
  visit(report.step);
  visit(report.steps);
  visit(report.epoch);
  visit(report.epochs);
  visit(report.samples_per_step);
  visit(report.loss);
  visit(report.accuracy);
  visit(report.val_loss);
  visit(report.val_accuracy);
  visit(report.first_step);
  visit(report.from);
  visit(report.spared_from);
  visit(report.rows_per_epoch);
  visit(report.rows_per_step);
  visit(report.in_parts);
  visit(report.ended.epoch);
  visit(report.ended.step);
  visit(report.ended.loss);
  visit(report.ended.accuracy);
  visit(report.ended.val_loss);
  visit(report.ended.val_accuracy);
  visit(report.ended.seconds);
  visit(report.ended.samples_per_second);
  visit(report.metrics_missing);
  visit(report.metrics_changed_until);
  visit(report.steps_skipped);
  visit(report.validated_step);
  visit(report.checkpoint_step);
}

}  // namespace

std::string lost_metrics(const ProgressReport& report) {
  std::vector<std::string> texts;
  if (report.metrics_missing > 0)
    texts.push_back(cat(counted(report.metrics_missing, "row"), " of metrics.jsonl missing"));
  if (report.metrics_changed_until > 0)
    texts.push_back(
        cat("rows of metrics.jsonl changed, up to step ", report.metrics_changed_until));
  return join(texts, ", ");
}

ReportNumbers numbers_of(const ProgressReport& report) {
  ReportNumbers numbers = {};
  size_t next = 0;
  visit_all(report, [&](auto field) { numbers[next++] = to_bits(field); });
  return numbers;
}

ProgressReport report_of(const ReportNumbers& numbers) {
  ProgressReport report;
  size_t next = 0;
  visit_all(report, [&](auto& field) {
    field = from_bits<std::remove_reference_t<decltype(field)>>(numbers[next++]);
  });
  return report;
}

bool ProgressReport::operator==(const ProgressReport& other) const {
  return numbers_of(*this) == numbers_of(other) && ended.more == other.ended.more &&
         input_wait == other.input_wait && steps_ahead == other.steps_ahead &&
         audits == other.audits;
}

void ProgressMeter::restore(const ProgressReport& report) {
  last_ = report;
  note(report.ended);
}

// One that ended once more came to the same.
void ProgressMeter::note(const EpochResult& ended) {
  if (ended.epoch == 0) return;
  const auto at =
      std::lower_bound(epochs_.begin(), epochs_.end(), ended.epoch,
                       [](const EpochResult& each, uint32_t epoch) { return each.epoch < epoch; });
  if (at != epochs_.end() && at->epoch == ended.epoch) {
    *at = ended;
  } else {
    epochs_.insert(at, ended);
  }
  if (epochs_.size() > kMostEpochs) epochs_.erase(epochs_.begin());
}

void ProgressMeter::report(const ProgressReport& report, Clock::Steady now) {
  last_ = report;
  note(report.ended);
  // The job went back to a checkpoint: a rate over the jump would be negative.
  if (!samples_.empty() && report.step < samples_.back().step) samples_.clear();
  // The newest sample moves until it is far enough from the one before.
  const size_t n = samples_.size();
  if (n >= 2 && samples_[n - 1].at - samples_[n - 2].at < kSpacing) samples_.pop_back();
  samples_.push_back({now, report.step});
  // The second sample leaves the window before the first goes, so the samples always span the whole
  // window, and two of them stay when reports are rare.
  while (samples_.size() > 2 && now - samples_[1].at >= kWindow) samples_.pop_front();
}

std::optional<ProgressReport> ProgressMeter::last_if_any() const {
  // A report with no field set is the same as none.
  if (last_ == ProgressReport()) return std::nullopt;
  return last_;
}

JobProgress ProgressMeter::progress() const {
  JobProgress progress;
  progress.last = last_;
  progress.epochs = epochs_;
  if (samples_.size() < 2) return progress;
  const std::chrono::duration<double> time = samples_.back().at - samples_.front().at;
  const auto steps = static_cast<double>(samples_.back().step - samples_.front().step);
  // Without a rate the numbers stay kNoNumber, which people see as unknown.
  if (time.count() <= 0 || steps <= 0) return progress;
  progress.steps_per_second = steps / time.count();
  if (last_.samples_per_step > 0) {
    progress.samples_per_second =
        progress.steps_per_second * static_cast<double>(last_.samples_per_step);
  }
  // A job without a known length has steps = 0, and no time that is left.
  if (last_.steps >= last_.step && last_.steps > 0) {
    progress.eta_seconds =
        static_cast<double>(last_.steps - last_.step) / progress.steps_per_second;
  }
  return progress;
}

}  // namespace leat
