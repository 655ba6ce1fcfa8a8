#include "daemon/jobs/progress.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kWindow{20000};
constexpr milliseconds kSpacing{500};

}  // namespace

void ProgressMeter::report(const ProgressReport& report, Clock::Steady now) {
  last_ = report;
  if (!samples_.empty() && report.step < samples_.back().step) samples_.clear();
  // The newest sample moves until it is far enough from the one before.
  const size_t n = samples_.size();
  if (n >= 2 && samples_[n - 1].at - samples_[n - 2].at < kSpacing) samples_.pop_back();
  samples_.push_back({now, report.step});
  while (samples_.size() > 2 && now - samples_[1].at >= kWindow) samples_.pop_front();
}

JobProgress ProgressMeter::progress() const {
  JobProgress progress;
  progress.last = last_;
  if (samples_.size() < 2) return progress;
  const std::chrono::duration<double> time = samples_.back().at - samples_.front().at;
  const auto steps = static_cast<double>(samples_.back().step - samples_.front().step);
  if (time.count() <= 0 || steps <= 0) return progress;
  progress.steps_per_second = steps / time.count();
  if (last_.samples_per_step > 0) {
    progress.samples_per_second =
        progress.steps_per_second * static_cast<double>(last_.samples_per_step);
  }
  if (last_.steps >= last_.step && last_.steps > 0) {
    progress.eta_seconds =
        static_cast<double>(last_.steps - last_.step) / progress.steps_per_second;
  }
  return progress;
}

}  // namespace leat
