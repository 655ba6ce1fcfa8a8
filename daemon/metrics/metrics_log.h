// The metrics of a run: a file of JSON lines. Each step has a row, in order, and each epoch has one
// after the row of its last step:
//
//   {"step": 469, "loss": 0.31, "accuracy": 0.88, "learning_rate": 0.002,
//    "timing": {"samples_per_second": 17894}}                      on one line; once a second
//   {"epoch": 1, "step": 469, "loss": 0.41, "accuracy": 0.83, "val_loss": 0.33,
//    "val_accuracy": 0.88, "val_f1": 0.87, "timing": {"seconds": 3.2, "samples_per_second": 17894}}
//
// The same run writes the same bytes, except for "timing", which stands last.
//
// A job that validates between epochs, or on several sets of data, has a row for each validation,
// after the row of its step. It counts from 1:
//
//   {"validation": 1, "step": 100, "val_loss": 0.52, "val_accuracy": 0.81, "test_loss": 0.6}
//
// With on_nan: skip a row has "skipped" after its accuracy: 1 if the step was skipped, else 0.
//
// The checkpoint of a step keeps a digest of the rows up to that step. MetricsLog::open() compares
// it with the rows, so it notices lost and changed ones. docs/checkpoints.md has the rules.
//
// Threads: one, and another one may call sync() meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/metrics/epoch_result.h"
#include "daemon/metrics/log_writer.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

inline constexpr std::string_view kSkipped = "skipped";

// A float is written with the shortest decimal of its own type, which is not that of a double.
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
  int64_t changed_until = 0;  // some rows up to this step differ from those written; 0: none
  int64_t missing_rows() const;
  // "rows are missing: of steps 3 to 7, 9"; "" if nothing is lost.
  std::string text() const;
};

// The end of a log.
struct LoggedMetrics {
  int64_t last_step = 0;  // the last one that has a row
  struct Row {
    int64_t step = 0;
    std::vector<double> values;  // as they were appended, without the timing
    bool skipped = false;
  };
  std::vector<Row> tail;
};

// The rows of the log at `path`, as MetricsLog::open() would keep them, with the values of the rows
// after `after_step`. `f32`: the values were appended as floats. Empty if there is no log. Reads
// the whole file.
Result<LoggedMetrics> read_metrics(Files& files, const std::string& path, int64_t after_step,
                                   bool f32);

// The same for a log that is open and flushed. Reads only its end.
Result<LoggedMetrics> read_last_metrics(Files& files, const std::string& path, int64_t after_step,
                                        bool f32);

// The results of all epochs up to step `last_step` in the log at `path`, ascending. Reads the whole
// file.
Result<std::vector<EpochResult>> read_epochs(Files& files, const std::string& path,
                                             int64_t last_step);

// The same of the validations that have rows. The epoch of each is 0.
Result<std::vector<EpochResult>> read_validations(Files& files, const std::string& path,
                                                  int64_t last_step);

// The bytes of the log at `path`; none if there is no log.
Result<Bytes> read_metrics_file(Files& files, const std::string& path);

// StepLog owns it. Rows go through a LogWriter, which says when they survive a crash.
class MetricsLog {
 public:
  // Opens the log at `path`, and keeps its rows up to step `last_step`: a run continues so from a
  // checkpoint; 0 keeps none. A torn last row, which a crash leaves, is dropped, and so is a line
  // that is no row: loss() then has its step. Rows that are kept survive a loss of power at any
  // moment, if they did before. The file is not written if all rows are kept. `expected`: the
  // digest in a checkpoint of at most `last_step`. `files` outlives the log. REQUIRES: no other log
  // writes to `path`.
  static Result<std::unique_ptr<MetricsLog>> open(
      Files& files, const std::string& path, int64_t last_step,
      const std::optional<MetricsDigest>& expected = std::nullopt);

  // Adds the row of a step. The row is buffered: the file has it after flush(), or earlier. While
  // the disk is full, up to 64 MiB of rows are kept for later. Steps between the last row and this
  // one count as missing. `samples_per_second`: if there is a new rate.
  Status append(int64_t step, std::span<const StepMetric> metrics,
                std::optional<double> samples_per_second = std::nullopt);
  // Adds the row of an epoch. All rows are handed to the operating system before the call returns,
  // unless the disk is full: hosts, which remember the rows of steps, do not know those of epochs.
  Status append(const EpochResult& epoch);
  // Adds the row of a validation after the last step, in the same way. Does nothing if that step
  // has one already: a training that continues may have to evaluate once more.
  Status append_validation(std::span<const StepMetric> metrics);
  // The steps up to `step` are done: those after the last row count as missing.
  void expect_rows_until(int64_t step);
  // Hands the buffered rows to the operating system; see LogWriter::flush().
  Status flush() { return writer_.flush(); }
  // The rows after `after_step` that the file may lack, because they are buffered or the disk is
  // full.
  LoggedMetrics unwritten(int64_t after_step, bool f32);
  // The step of the last row, appended or kept; 0 if there is none.
  int64_t last_step() const { return last_step_; }
  // The last step that has the row of a validation; 0 if there is none.
  int64_t validated() const { return validated_; }
  // The last epochs, ascending; at most kMostEpochs.
  const std::deque<EpochResult>& epochs() const { return epochs_; }
  // Counts all rows, appended or kept.
  int64_t skipped_steps() const { return skipped_steps_; }
  const MetricsLoss& loss() const { return loss_; }
  // Makes the log remember the digest of `step`, which has no row yet.
  void mark(int64_t step) { marked_ = {step, 0, 0, 0, 0}; }
  // The digest at the marked step, or at the last one; nothing for others.
  std::optional<MetricsDigest> digest_at(int64_t step) const;
  // Rows wait for room on the disk.
  bool is_behind() const { return writer_.is_behind(); }
  // Returns when the rows that were appended are on the disk. Errors: see LogWriter::sync().
  Status sync() { return writer_.sync(); }

 private:
  MetricsLog(Files& files, std::string folder, std::unique_ptr<WritableFile> file)
      : writer_(files, std::move(folder), std::move(file)) {}
  void compare(std::string_view text, const MetricsDigest& expected);
  MetricsDigest digest() const;
  size_t add_line();

  int64_t last_step_ = 0;
  int64_t skipped_steps_ = 0;
  int64_t validations_ = 0, validated_ = 0;  // their number, and the step of the last one
  std::deque<EpochResult> epochs_;
  MetricsLoss loss_;
  uint64_t bytes_ = 0;  // of all lines, in the file or not
  uint32_t crc_ = 0;    // of them
  MetricsDigest marked_;
  JsonLine line_, timing_;
  LogWriter writer_;
};

}  // namespace leat
