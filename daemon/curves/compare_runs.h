// Compares two trainings: their job files and their numbers.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/curves/metrics_table.h"

namespace leat {

// A key whose values differ. A value that a job file lacks is empty.
struct KeyDifference {
  std::string key;  // "optimizer.learning_rate"
  std::string first, second;
};
// The keys of two job files that differ, in the order of the first file and then of the second one.
// invalid_argument for a text that is not YAML.
Result<std::vector<KeyDifference>> compare_job_files(std::string_view first,
                                                     std::string_view second);

// The result of a training in one metric, from the rows of its epochs.
struct MetricSummary {
  std::string name;
  double last = 0;         // of the last epoch; NaN if no epoch has it
  double best = 0;         // the least of a loss, the greatest of any other
  int64_t best_epoch = 0;  // counted from 1; 0: none
};
// A summary of each metric of epochs, in their order, without times and rates.
std::vector<MetricSummary> summarize(const MetricsTable& table);
// True if less is better: the name has "loss", "error", "perplexity", or is one of mae, mse, rmse.
bool less_is_better(std::string_view metric);

}  // namespace leat
