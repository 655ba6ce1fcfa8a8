// How far a job's variables on one device are, in whole steps: what a runner remembers of a run
// that failed, so that others can go on from it.
//
// A plan that is recoverable (CompileOptions::recoverable) has a leat.Commit on each device that
// writes variables. All that a step waits for or may fail in comes before it, all that it writes
// after it; so the step is in the variables as a whole, or not at all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace leat {

// What a device holds of a job.
struct Held {
  // What the plan fetched in a step.
  struct Row {
    uint64_t step = 0;
    std::vector<double> values;
    bool operator==(const Row&) const = default;
  };
  bool whole = false;     // false: the variables are of no step in particular; nothing else counts
  uint64_t step = 0;      // the steps below are in them
  std::vector<Row> rows;  // of the last steps below it, ascending
};

// One for each table of a job's resources. Threads: any.
class Commits {
 public:
  static constexpr int kMostValues = 64;      // of a row
  static constexpr size_t kMostRows = 8'192;  // that are remembered

  // Of so many values each: more than a run goes on without a word of the master, and the master
  // has not written yet.
  static constexpr size_t rows_of(size_t values) {
    return std::clamp<size_t>(kBytes / (std::max<size_t>(values, 1) * sizeof(double)), 1,
                              kMostRows);
  }

  // The variables are, or are about to be, of no step in particular: until declare().
  void taint();
  // The variables are those after the steps below `step`, whatever they were.
  void declare(uint64_t step);

  // Makes room for rows of so many values.
  void reserve(size_t values);
  // What is fetched in `step`, which may still come to nothing. Allocates nothing.
  // REQUIRES: at most as many values as there is room for.
  void stage(uint64_t step, std::span<const double> values);
  // All that the steps below `step` write is written.
  void commit(uint64_t step);

  // REQUIRES: no run of the job steps.
  Held held() const;

 private:
  static constexpr size_t kBytes = 512 << 10;  // they go to the master in one message

  mutable std::mutex mutex_;
  bool whole_ = false;
  uint64_t step_ = 0;
  size_t width_ = 0;             // of a row
  std::vector<double> values_;   // by step % steps_.size()
  std::vector<uint64_t> steps_;  // whose row it is, + 1; 0: nobody's
};

}  // namespace leat
