// The lines of a log of metrics: parsing, and the rule which of them count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/metrics/epoch_result.h"
#include "daemon/metrics/metrics_log.h"

namespace leat {

// A view of one line: nothing of the text is copied.
struct MetricsLine {
  int64_t step = 0;        // 0: the line is no row
  int64_t epoch = 0;       // 0: it is not the row of an epoch
  int64_t validation = 0;  // 0: it is not the row of a validation
  std::string_view rest;   // the text after the step: ", ...}" or "}"

  // `text` is the line without its '\n', and outlives the result. Looks only at the first keys, so
  // it is quick; a line that MetricsLog did not write has step 0.
  static MetricsLine parse(std::string_view text);
  // The row of a step itself.
  bool is_of_step() const { return step > 0 && epoch == 0 && validation == 0; }
  // The row of a step that was skipped. False for other rows.
  bool is_skipped() const;
  // Of an epoch, or with the epoch 0 of a validation. Numbers that the row lacks are kNoNumber.
  EpochResult epoch_result() const;
};

// The lines that a log keeps of a text, as pieces of it: each row of a step must be of a later step
// than the row before, and each row of an epoch or of a validation must follow the row of its step.
// A torn last line and a line that is no row are left out. Used both when a log is opened and when
// one is only looked at, so that both agree on its rows.
class KeptLines {
 public:
  // Keeps the lines up to step `last_step`. `text` outlives the object.
  KeptLines(std::string_view text, int64_t last_step);

  // True if nothing of `text` was left out.
  bool keeps_all_of(std::string_view text) const;
  // Neighbouring lines make one piece; a log that is kept as a whole has one.
  const std::vector<std::string_view>& pieces() const { return pieces_; }
  // Steps without a row before the last step that has one, from step to step, both included.
  const std::vector<std::pair<int64_t, int64_t>>& missing() const { return missing_; }
  const std::vector<MetricsLine>& epochs() const { return epochs_; }
  const std::vector<MetricsLine>& validations() const { return validations_; }
  int64_t last_step() const { return last_step_; }
  int64_t skipped_steps() const { return skipped_steps_; }

 private:
  bool takes(const MetricsLine& line) const;
  void take(std::string_view text, const MetricsLine& line);

  std::vector<std::string_view> pieces_;
  std::vector<MetricsLine> epochs_, validations_;
  std::vector<std::pair<int64_t, int64_t>> missing_;
  int64_t last_step_ = 0;
  int64_t skipped_steps_ = 0;
};

// The rows of steps in `text`, with the values of those after `after_step`. `f32`: the values were
// written as floats. Rows of epochs and validations, and steps out of order, are left out.
LoggedMetrics parse_rows(std::string_view text, int64_t after_step, bool f32);

}  // namespace leat
