// Decides how often a job may fail, and how long it waits before it tries again.
//
// * A failure is forgotten once the job has done kForgivenAfter more steps, which is about how
//   often large trainings are interrupted: failures that are spread over weeks do not add up.
// * A job that fails before it has come farther than the last time tries again at once, twice: two
//   workers may be lost at about the same time. From then on it waits, twice as long each time.
// * Failures of a lasting session that has nothing to do make it wait in the same way, and are not
//   counted. Those of its runners while they start, before it can serve, are.
//
// Threads: one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace leat {

class FailureBudget {
 public:
  static constexpr uint64_t kForgivenAfter = 1900;
  static constexpr int kAtOnce = 2;
  static constexpr std::chrono::milliseconds kFirstWait{250}, kLongestWait{30000};

  FailureBudget() = default;
  // Takes `count` failures from a journal, all at or before `step`. The next failure at that step
  // counts as one without progress.
  FailureBudget(size_t failures, uint64_t step) : steps_(failures, step) {
    if (failures > 0) farthest_ = step;
  }

  // The number of failures that count when the job fails at `step`.
  size_t recent(uint64_t step) const;
  // Adds a failure. Returns how long the job waits.
  std::chrono::milliseconds add(uint64_t step);
  // The wait after a failure that recent() does not count.
  std::chrono::milliseconds pause(uint64_t step);

 private:
  std::vector<uint64_t> steps_;       // of the failures that are not forgotten
  std::optional<uint64_t> farthest_;  // step at which the job has failed
  int in_vain_ = 0;                   // failures since the job last came farther
};

}  // namespace leat
