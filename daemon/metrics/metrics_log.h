// The metrics of a run: a file of JSON lines. Each step has a row, in ascending order without gaps.
// Each epoch has a row after that of its last step:
//
//   {"step": 469, "loss": 0.31, "accuracy": 0.88, "learning_rate": 0.002,
//    "timing": {"samples_per_second": 17894}}                      on one line; once a second
//   {"epoch": 1, "step": 469, "loss": 0.41, "accuracy": 0.83, "val_loss": 0.33,
//    "val_accuracy": 0.88, "timing": {"seconds": 3.2, "samples_per_second": 17894}}
//
// The same run gives the same bytes, except for "timing", which is always last.
//
// With on_nan: skip, a row has "skipped" after its accuracy: 1 if the step was skipped, otherwise
// 0.
//
// The checkpoint of a step contains a digest of the rows up to that step. A run that opens the log
// again compares the rows with it, and so finds lost and changed rows. docs/checkpoints.md has the
// rules.
//
// Threads: one, while another one may call sync().
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/metrics/epoch_result.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

inline constexpr std::string_view kSkipped = "skipped";

// A value of a row. A float is printed with its own shortest decimal, which has fewer digits than
// that of the same double.
struct StepMetric {
  std::string_view name;
  std::variant<double, float> value;
};

// The digest of the rows up to a step, for a checkpoint's manifest.
struct MetricsDigest {
  int64_t step = 0;           // the step of the last row
  uint64_t bytes = 0;         // length of the rows
  uint32_t crc32c = 0;        // checksum of the rows
  int64_t missing = 0;        // number of steps up to there without a row
  int64_t changed_until = 0;  // as in MetricsLoss
  bool operator==(const MetricsDigest&) const = default;
};

// The rows that a log has lost.
struct MetricsLoss {
  std::vector<std::pair<int64_t, int64_t>> missing;  // ranges of steps, both ends included;
                                                     // ascending
  int64_t changed_until = 0;  // some rows up to this step are not as written; 0: none
  // The number of missing rows.
  int64_t missing_rows() const;
  // Describes the loss for people: "2 rows are missing: of steps 3 to 4"; "" if nothing is lost.
  std::string text() const;
};

// The rows of a log after some step.
struct LoggedMetrics {
  int64_t last_step = 0;  // the last step that has a row
  struct Row {
    int64_t step = 0;
    std::vector<double> values;  // as they were appended, without the timing
    bool skipped = false;
  };
  std::vector<Row> tail;
};

// Reads the rows of the log at `path` that open() would keep, with the values of those after
// `after_step`. `f32`: the values were appended as floats. No rows if there is no log. Reads the
// whole file.
Result<LoggedMetrics> read_metrics(Files& files, const std::string& path, int64_t after_step,
                                   bool f32);

// The same for a log that open() has opened and flush() has flushed. Reads only the end of the
// file.
Result<LoggedMetrics> read_last_metrics(Files& files, const std::string& path, int64_t after_step,
                                        bool f32);

// Writes the log of one run.
class MetricsLog {
 public:
  // Opens the log at `path` and keeps its rows up to step `last_step`, so that a run continues from
  // a checkpoint; 0 keeps none. A torn last row, which a crash leaves, is dropped, and so is an
  // invalid line: loss() then contains its step. Rows that are kept survive a power failure at any
  // moment, if they did before. If all rows are kept, nothing is written. `expected` is the digest
  // in a checkpoint of at most `last_step`. `files` must outlive the log. REQUIRES: no other log
  // writes to `path`.
  static Result<std::unique_ptr<MetricsLog>> open(
      Files& files, const std::string& path, int64_t last_step,
      const std::optional<MetricsDigest>& expected = std::nullopt);

  // Appends the row of a step. The row is buffered: it is in the file after flush(), or earlier.
  // While the disk is full, up to 64 MiB of rows are kept for later. Steps between the last row and
  // this one are missing. `samples_per_second` is the current rate, if there is one.
  Status append(int64_t step, std::span<const StepMetric> metrics,
                std::optional<double> samples_per_second = std::nullopt);
  // Appends the row of an epoch, and passes all rows to the operating system before it returns,
  // unless the disk is full: unlike steps, an epoch's result is stored nowhere else.
  Status append(const EpochResult& epoch);
  // The steps up to `step` are done: those after the last row are missing.
  void expect_rows_until(int64_t step);
  // Passes the buffered rows to the operating system, even during a sync(); unless the disk is
  // full, or another thread is writing.
  Status flush();
  // Returns the rows after `after_step` that may not be in the file yet.
  LoggedMetrics unwritten(int64_t after_step, bool f32);
  // The step of the last row, appended or kept; 0 if there is none.
  int64_t last_step() const { return last_step_; }
  // The results of the last epochs, ascending; at most kMostEpochs.
  const std::deque<EpochResult>& epochs() const { return epochs_; }
  // The number of skipped steps, of all rows, appended or kept.
  int64_t skipped_steps() const { return skipped_steps_; }
  // The rows that are lost, so far.
  const MetricsLoss& loss() const { return loss_; }
  // Prepares the digest of `step`, which must be appended later.
  void mark(int64_t step) { marked_ = {step, 0, 0, 0, 0}; }
  // Returns the digest of the marked step or of the last one; nothing for others.
  std::optional<MetricsDigest> digest_at(int64_t step) const;
  // True if rows wait for room on the disk.
  bool is_behind() const { return behind_; }
  // Returns when the appended rows are on the disk; resource_exhausted while it has no room for
  // them. If a sync of the file fails, it is not tried again: all later calls return `unavailable`.
  Status sync();

 private:
  MetricsLog(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  void compare(std::string_view text, const MetricsDigest& expected);
  MetricsDigest digest() const;
  size_t add_line();
  Status hand_over();
  Status write();

  Files& files_;
  const std::string folder_;
  int64_t last_step_ = 0;
  int64_t skipped_steps_ = 0;
  std::deque<EpochResult> epochs_;
  MetricsLoss loss_;
  uint64_t bytes_ = 0;  // of all lines, whether in the file or not
  uint32_t crc_ = 0;    // checksum of these lines
  MetricsDigest marked_;
  JsonLine line_, timing_;
  std::mutex buffering_;
  std::string buffer_;   // new rows
  std::mutex writing_;   // locked before buffering_
  std::string pending_;  // older rows that are not written yet
  std::atomic<bool> behind_ = false;
  Status broken_;
  std::mutex syncing_;  // locked before both
  bool named_ = false;  // the file's name survives a power failure
  std::unique_ptr<WritableFile> file_;
};

}  // namespace leat
