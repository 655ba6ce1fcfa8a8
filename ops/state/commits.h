// The progress of a job's variables on one device, in whole steps. A runner keeps this from a run
// that failed, so that the next run can continue from it.
//
// A recoverable plan (CompileOptions::recoverable) has a leat.Commit on each device that writes
// variables. Every node that a step waits for, or that may fail, runs before the Commit, and every
// write to a variable runs after it. The variables therefore contain a step as a whole or not at
// all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace leat {

// The state of a job on one device.
struct Held {
  // The values that the plan fetched in one step.
  struct Row {
    uint64_t step = 0;
    std::vector<double> values;
    bool operator==(const Row&) const = default;
  };
  bool whole =
      false;  // false: the variables are of no particular step, and the other fields do not count
  uint64_t step = 0;      // the variables contain all steps below this one
  std::vector<Row> rows;  // of the last steps below `step`, ascending
};

// Each table of a job's resources has one. Threads: any.
class Commits {
 public:
  static constexpr int kMostValues = 64;      // of a row
  static constexpr size_t kMostRows = 8'192;  // kept at most

  // The number of rows of so many values that are kept: more than the steps that a run takes
  // without a message of the master, plus those that the master has not written yet.
  static constexpr size_t rows_of(size_t values) {
    return std::clamp<size_t>(kBytes / (std::max<size_t>(values, 1) * sizeof(double)), 1,
                              kMostRows);
  }

  // Marks the variables as of no particular step, now or soon, until declare().
  void taint();
  // Declares that the variables contain exactly the steps below `step`, whatever they held before.
  void declare(uint64_t step);

  // Reserves room for rows of so many values.
  void reserve(size_t values);
  // Stores the values fetched in `step`, which may still fail. It allocates nothing. REQUIRES: at
  // most as many values as reserve() made room for.
  void stage(uint64_t step, std::span<const double> values);
  // Records that all writes of the steps below `step` are done.
  void commit(uint64_t step);

  // REQUIRES: no run of the job is in a step.
  Held held() const;

 private:
  static constexpr size_t kBytes = 512 << 10;  // the master gets them in one message

  mutable std::mutex mutex_;
  bool whole_ = false;
  uint64_t step_ = 0;
  size_t width_ = 0;             // of a row
  std::vector<double> values_;   // by step % steps_.size()
  std::vector<uint64_t> steps_;  // the step of the row, + 1; 0: no step
};

}  // namespace leat
