// The rows of a log of metrics (metrics.jsonl), as a table of numbers, for commands that print and
// draw them. docs/checkpoints.md describes the file.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// The rows of one kind. Each has a number for each name; NaN where the row has none, and where the
// training computed one.
struct MetricsRows {
  std::vector<std::string> names;  // in the order in which the log first has them
  std::vector<int64_t> steps;      // of each row, counted from 1
  std::vector<int64_t> epochs;     // of each row, counted from 1; 0 for the row of a step
  std::vector<std::vector<double>> values;

  size_t size() const { return steps.size(); }
  // The index of the name; names.size() if no row has it.
  size_t find(std::string_view name) const;
};

struct MetricsTable {
  MetricsRows of_steps, of_epochs;
  // Of evaluations that have rows of their own, also those at the ends of epochs.
  MetricsRows of_validations = {};
  // Lines that are no row: a line that a dying process left unfinished, for instance.
  int64_t unreadable = 0;
};

// Reads the text of a log. A row of a step replaces an earlier one of the same step, as a resumed
// training writes it; and so does the row of an epoch or of a validation.
MetricsTable parse_metrics(std::string_view text);

// One curve: a number for each of some steps, in ascending order of steps. All numbers are finite.
struct Curve {
  std::string label;
  std::vector<double> steps, values;
};

// The curve of a metric: of the steps if they have it, else of the validations, else of the epochs.
// invalid_argument if none has it, with the names that there are.
Result<Curve> curve_of(const MetricsTable& table, std::string_view metric);

// Replaces each value by the mean of those whose steps are at most `window` rows away, which tells
// the trend of a noisy loss. A window below 1 changes nothing.
void smooth(Curve& curve, int64_t window);

// Leaves at most about 2 * `buckets` points, so that the least and the greatest value of each
// bucket of neighbouring points stay.
Curve thinned(const Curve& curve, size_t buckets);

}  // namespace leat
