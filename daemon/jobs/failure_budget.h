// How often a job may fail before it is given up, and how long it waits before it tries again.
//
// * A failure is forgotten once the job has come kForgivenAfter steps farther, which is how often
//   large trainings are interrupted: bad luck, spread over weeks, does not add up.
// * A job that fails before it has come farther than the last time tries again at once, twice: two
//   workers may be lost at about one time. From then on it waits, twice as long each time.
//
// Threads: one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace leat {

class FailureBudget {
 public:
  static constexpr uint64_t kForgivenAfter = 1900;
  static constexpr int kAtOnce = 2;
  static constexpr std::chrono::milliseconds kFirstWait{250}, kLongestWait{30000};

  FailureBudget() = default;
  // As many as a journal tells of, none of them after `step`: the next one there is in vain.
  FailureBudget(size_t failures, uint64_t step) : steps_(failures, step), farthest_(step) {}

  // Those that count when the job fails at `step`.
  size_t recent(uint64_t step) const;
  // One more. How long the job is to wait.
  std::chrono::milliseconds add(uint64_t step);

 private:
  std::vector<uint64_t> steps_;  // of each that is not forgotten
  uint64_t farthest_ = 0;        // that it has failed at
  int in_vain_ = 0;              // since it came farther
};

}  // namespace leat
