// The metrics of a run: a file of JSON lines, one object per step, {"step": 17, "loss": 0.5, ...},
// steps rising by one. The same run gives the same bytes.
//
// Threads: one; and another one may sync() meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/json_line.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// A float keeps its own shortest decimal, which its value as a double would not.
struct StepMetric {
  std::string_view name;
  std::variant<double, float> value;
};

// What a log says from some step on.
struct LoggedMetrics {
  int64_t last_step = 0;  // that has a row
  struct Row {
    int64_t step = 0;
    std::vector<double> values;  // as they were appended; NaN for one that JSON cannot say
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
  // dropped. What is kept survives a loss of power at any moment, if it did before. Nothing is
  // written where all is kept. `files` must live longer. REQUIRES: no other log writes to `path`.
  static Result<std::unique_ptr<MetricsLog>> open(Files& files, const std::string& path,
                                                  int64_t last_step);

  // Adds the row of a step. Buffered: the file has it after flush(), or earlier. While the disk is
  // full up to 64 MiB are kept for later.
  Status append(int64_t step, std::span<const StepMetric> metrics);
  // Hands what is buffered to the operating system, also during a sync(); unless the disk is full,
  // or somebody else is handing over.
  Status flush();
  // Of the last row, appended or kept; 0 if there is none.
  int64_t last_step() const { return last_step_; }
  // Rows wait for room on the disk.
  bool is_behind() const { return behind_; }
  // Returns when the rows that were appended are on the disk; resource_exhausted while it has no
  // room for them. A sync of the file that fails is not tried again: from then on all is
  // unavailable.
  Status sync();

 private:
  MetricsLog(Files& files, std::string folder, std::unique_ptr<WritableFile> file, int64_t last)
      : files_(files), folder_(std::move(folder)), last_step_(last), file_(std::move(file)) {}
  Status write();

  Files& files_;
  const std::string folder_;
  int64_t last_step_;
  JsonLine line_;
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
