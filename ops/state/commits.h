// The progress of a job's variables on one device, in whole steps. A runner keeps this from a run
// that failed, so that the next run can continue from it.
//
// A recoverable plan (CompileOptions::recoverable) has a leat.Commit on each device that writes
// variables. Every node that a step waits for, or that may fail, runs before the Commit, and every
// write to a variable runs after it. The variables therefore contain a step as a whole or not at
// all.
//
// The calls of a run, in their order: reserve() when the plan is bound, declare() when the first
// step begins, then for each step stage() by leat.Commit and commit() when all writes are done. A
// run whose write failed, or a plan that is not recoverable, calls taint().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace leat {

// The state of a job on one device, as held() copies it.
struct Held {
  // The values that the plan fetched in one step.
  struct Row {
    uint64_t step = 0;
    std::vector<double> values;
    bool operator==(const Row&) const = default;
  };
  // False: the variables are of no particular step, and the other fields do not count.
  bool whole = false;
  // The variables contain all steps below this one, and no write of a later one.
  uint64_t step = 0;
  // Of the last steps below `step`, ascending. Steps of which no row is kept are left out.
  std::vector<Row> rows;
};

// Each table of a job's resources has one, which lives as long as the table. At first the variables
// are of no particular step. No function blocks for longer than a copy of the rows takes.
// Threads: any.
class Commits {
 public:
  // The most values of a row: leat.Commit refuses more.
  static constexpr int kMostValues = 64;
  static constexpr size_t kMostRows = 8'192;  // kept at most

  // The number of rows of so many values that are kept: more than the steps that a run takes
  // without a message of the master, plus those that the master has not written yet.
  static constexpr size_t rows_of(size_t values) {
    return std::clamp<size_t>(kBytes / (std::max<size_t>(values, 1) * sizeof(double)), 1,
                              kMostRows);
  }

  // Marks the variables as of no particular step, now or soon, until declare(). All rows are
  // dropped, since they may belong to steps that the variables do not contain. Call it before the
  // first byte of a variable is overwritten.
  void taint();
  // Declares that the variables contain exactly the steps below `step`, whatever they held before.
  // Rows of `step` and of later steps are dropped, because these steps run again.
  void declare(uint64_t step);

  // Reserves room for rows_of(values) rows of so many values. If the number of values changes, all
  // rows are dropped; else they stay, so that the next plan of the job keeps them.
  void reserve(size_t values);
  // Stores the values fetched in `step`, which may still fail: held() has the row only after
  // commit(). The newest rows overwrite the oldest. It allocates nothing. REQUIRES: reserve() was
  // called, and `values` has at most as many values as it made room for.
  void stage(uint64_t step, std::span<const double> values);
  // In place of stage(), for a device that writes the values to memory of the host by itself:
  // copies those of `step` to `values`, as many as were reserved; false if they are not there. It
  // is called later, when the step is committed, and never for one that is not. It allocates
  // nothing.
  using ReadRow = std::function<bool(uint64_t step, std::span<double> values)>;
  // From now on rows that were not staged are read by `read`, until the next call. REQUIRES:
  // reserve() was called.
  void read_rows_by(ReadRow read);
  // Records that all writes of the steps below `step` are done.
  void commit(uint64_t step);

  // A copy of the state; without steps and rows if the variables are of no particular step.
  // REQUIRES: no run of the job is in a step.
  Held held();

 private:
  static constexpr size_t kBytes = 512 << 10;  // the master gets them in one message

  // Reads the rows of committed steps that are not staged. REQUIRES: the mutex is held.
  void read_rows();
  void keep(uint64_t step, std::span<const double> values);

  std::mutex mutex_;
  ReadRow read_row_;
  uint64_t read_from_ = 0;  // rows of earlier steps are staged, or not there
  bool whole_ = false;
  uint64_t step_ = 0;
  size_t width_ = 0;             // of a row
  std::vector<double> values_;   // by step % steps_.size()
  std::vector<uint64_t> steps_;  // the step of the row, + 1; 0: no step
};

}  // namespace leat
