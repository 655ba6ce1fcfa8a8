// The numbers of a run's checkpoints, as evaluations beside its training leave them: a file of JSON
// lines, {"step": 100, "val_loss": 0.5, ...}, one for each checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "daemon/training/train_observer.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The name of the file in a folder.
inline constexpr const char* kEvaluationsFile = "evaluations.jsonl";

// One line. Without a step, for weights that do not say theirs, that is null.
std::string evaluation_row(const ValidationResult& result, std::optional<int64_t> step);

// The file, which is replaced as a whole by each new row, so that it is never torn. Threads: one.
class EvaluationRows {
 public:
  // `files` outlives it.
  EvaluationRows(Files& files, std::string path) : files_(files), path_(std::move(path)) {}

  // Reads the rows that are there; a torn line of another writer is left out. Errors are those of
  // read_file(), for a file of at most 64 MiB.
  Status open();
  bool has(int64_t step) const { return steps_.contains(step); }
  // The greatest step that has a row; 0: none.
  int64_t last_step() const { return steps_.empty() ? 0 : *steps_.rbegin(); }
  // The number of that key in the last row, such as "val_loss"; nothing if it has none.
  std::optional<double> last(std::string_view key) const;
  // Writes the row of result.step behind the others. After an error it may be called again.
  Status add(const ValidationResult& result);

 private:
  Files& files_;
  const std::string path_;
  std::string text_;
  std::set<int64_t> steps_;
};

}  // namespace leat
