#include "daemon/jobs/usage_history.h"

namespace leat {

void UsageHistory::add(const WorkerUsage& usage, Clock::Steady now, int64_t wall_ms) {
  const bool begins = !from_ || usage.cpu_ms < cpu_ms_;
  if (!begins) {
    const std::chrono::duration<double, std::milli> time = now - *from_;
    if (time < kDistance) return;
    const double used = static_cast<double>(usage.cpu_ms - cpu_ms_);
    // Readers may still hold the old list, so a new one replaces it.
    auto points = std::make_shared<UsagePoints>();
    points->reserve(kMostPoints);
    if (points_) {
      const bool full = points_->size() == kMostPoints;
      points->assign(points_->begin() + (full ? 1 : 0), points_->end());
    }
    points->push_back({wall_ms, used / time.count(), usage.resident_bytes});
    points_ = std::move(points);
  }
  from_ = now;
  cpu_ms_ = usage.cpu_ms;
}

}  // namespace leat
