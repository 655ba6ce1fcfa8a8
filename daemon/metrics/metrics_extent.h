// How far a log of metrics goes, without its values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// A value. A training that continues asks with it whether the log or the memory of hosts has all
// rows.
struct MetricsExtent {
  // The last step that has a row, counted from 1; 0 if none has.
  int64_t last_step = 0;
  // The epochs that have a row, each with its last step.
  std::set<std::pair<int64_t, int64_t>> epochs;
  // The steps after which there is the row of a validation.
  std::set<int64_t> validations;
};

// The extent of the log at `path`, as MetricsLog::open() would keep it; empty if there is none.
// Reads the whole file, of 4 GiB at most. Writes nothing.
Result<MetricsExtent> read_metrics_extent(Files& files, const std::string& path);

}  // namespace leat
