// The use of a worker over the last half hour, for people.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/jobs/worker_usage.h"
#include "devices/base/clock.h"

namespace leat {

struct UsagePoint {
  int64_t at_ms = 0;            // of Unix time: the end of the time that the point stands for
  double cores = 0;             // the mean number of cores that computed
  uint64_t resident_bytes = 0;  // at that end
};
using UsagePoints = std::vector<UsagePoint>;

// Makes a point of the heartbeats of each ten seconds. A CPU time that falls is that of another
// process, with which the history goes on.
//
// Threads: one. The points that it returns do not change, and any thread may read them.
class UsageHistory {
 public:
  static constexpr size_t kMostPoints = 180;
  static constexpr std::chrono::seconds kDistance{10};

  void add(const WorkerUsage& usage, Clock::Steady now, int64_t wall_ms);
  // The oldest first. Null before the first one.
  const std::shared_ptr<const UsagePoints>& points() const { return points_; }

 private:
  std::optional<Clock::Steady> from_;  // the point to come begins here
  uint64_t cpu_ms_ = 0;                // the CPU time then
  std::shared_ptr<const UsagePoints> points_;
};

}  // namespace leat
