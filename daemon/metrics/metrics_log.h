// The metrics of a run: a file of JSON lines. Each step has a row, steps rising by one, and each
// epoch has one behind that of its last step:
//
//   {"step": 469, "loss": 0.31, "accuracy": 0.88, "learning_rate": 0.002,
//    "timing": {"samples_per_second": 17894}}                      on one line; once a second
//   {"epoch": 1, "step": 469, "loss": 0.41, "accuracy": 0.83, "val_loss": 0.33,
//    "val_accuracy": 0.88, "timing": {"seconds": 3.2, "samples_per_second": 17894}}
//
// The same run gives the same bytes, but for "timing", which stands last.
//
// With on_nan: skip a row has "skipped" behind its accuracy: 1 if the step was skipped, else 0.
//
// A digest of the rows up to a step is kept in the checkpoint of that step: who opens the log again
// knows what has become of them. docs/checkpoints.md has the rules.
//
// Threads: one; and another one may sync() meanwhile.
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

// A float keeps its own shortest decimal, which its value as a double would not.
struct StepMetric {
  std::string_view name;
  std::variant<double, float> value;
};

// The digest of a log whose last row is that of a step, for a checkpoint's manifest.
struct MetricsDigest {
  int64_t step = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;        // of them
  int64_t missing = 0;        // steps up to there without a row
  int64_t changed_until = 0;  // as MetricsLoss has it
  bool operator==(const MetricsDigest&) const = default;
};

// The rows that a log has lost for good.
struct MetricsLoss {
  std::vector<std::pair<int64_t, int64_t>> missing;  // from step to step, both included; ascending
  int64_t changed_until = 0;  // of the rows up to there some are not what was written; 0: none
  int64_t missing_rows() const;
  // "rows are missing: of steps 3 to 7, 9"; "" if nothing is lost.
  std::string text() const;
};

// What a log says from some step on.
struct LoggedMetrics {
  int64_t last_step = 0;  // that has a row
  struct Row {
    int64_t step = 0;
    std::vector<double> values;  // as they were appended, without the timing
    bool skipped = false;
  };
  std::vector<Row> tail;
};

// The rows of the log at `path`, as open() would keep them, with the values of those after
// `after_step`. `f32`: what was appended were floats. None if there is no log. All of it is read.
Result<LoggedMetrics> read_metrics(Files& files, const std::string& path, int64_t after_step,
                                   bool f32);

// The same of a log that open() has opened, and flush() has flushed: its end is read.
Result<LoggedMetrics> read_last_metrics(Files& files, const std::string& path, int64_t after_step,
                                        bool f32);

class MetricsLog {
 public:
  // Opens the log at `path` with the rows up to step `last_step` of what is there already, which is
  // how a run goes on from a checkpoint; 0 keeps none. A torn last row, which a crash leaves, is
  // dropped, and so is a line that is no row: loss() then has its step. What is kept survives a
  // loss of power at any moment, if it did before. Nothing is written where all is kept. `expected`
  // is what a checkpoint of at most `last_step` says of it. `files` must live longer. REQUIRES: no
  // other log writes to `path`.
  static Result<std::unique_ptr<MetricsLog>> open(
      Files& files, const std::string& path, int64_t last_step,
      const std::optional<MetricsDigest>& expected = std::nullopt);

  // Adds the row of a step. Buffered: the file has it after flush(), or earlier. While the disk is
  // full up to 64 MiB are kept for later. Steps that are left out before it are missing.
  // `samples_per_second`: nothing, or the rate just now.
  Status append(int64_t step, std::span<const StepMetric> metrics,
                std::optional<double> samples_per_second = std::nullopt);
  // Adds the row of an epoch, and hands all to the operating system before it returns, unless the
  // disk is full: nobody but the log knows of it.
  Status append(const EpochResult& epoch);
  // The steps up to `step` are done: those after the last row have none.
  void expect_rows_until(int64_t step);
  // Hands what is buffered to the operating system, also during a sync(); unless the disk is full,
  // or somebody else is handing over.
  Status flush();
  // The rows after `after_step` that the file may lack: they are buffered, or the disk is full.
  LoggedMetrics unwritten(int64_t after_step, bool f32);
  // Of the last row, appended or kept; 0 if there is none.
  int64_t last_step() const { return last_step_; }
  // The last ones, ascending; at most kMostEpochs.
  const std::deque<EpochResult>& epochs() const { return epochs_; }
  // Of all rows, appended or kept.
  int64_t skipped_steps() const { return skipped_steps_; }
  const MetricsLoss& loss() const { return loss_; }
  // Remembers the digest of `step`, a step to come.
  void mark(int64_t step) { marked_ = {step, 0, 0, 0, 0}; }
  // Of the step that was marked, or of the last one; nothing of others.
  std::optional<MetricsDigest> digest_at(int64_t step) const;
  // Rows wait for room on the disk.
  bool is_behind() const { return behind_; }
  // Returns when the rows that were appended are on the disk; resource_exhausted while it has no
  // room for them. A sync of the file that fails is not tried again: from then on all is
  // unavailable.
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
  uint64_t bytes_ = 0;  // of all lines, in the file or not
  uint32_t crc_ = 0;    // of them
  MetricsDigest marked_;
  JsonLine line_, timing_;
  std::mutex buffering_;
  std::string buffer_;   // rows that are new
  std::mutex writing_;   // held before that one
  std::string pending_;  // rows before them
  std::atomic<bool> behind_ = false;
  Status broken_;
  std::mutex syncing_;  // held before both
  bool named_ = false;  // the file's name survives a loss of power
  std::unique_ptr<WritableFile> file_;
};

}  // namespace leat
