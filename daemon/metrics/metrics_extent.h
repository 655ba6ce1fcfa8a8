// The steps and epochs in a log of metrics, without their values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The extent of a log.
struct MetricsExtent {
  int64_t last_step = 0;                         // the last step that has a row
  std::set<std::pair<int64_t, int64_t>> epochs;  // with a row; each with its last step
};

// Reads the extent of the log at `path`, with the rows that MetricsLog::open() would keep; an empty
// extent if there is no log.
Result<MetricsExtent> read_metrics_extent(Files& files, const std::string& path);

}  // namespace leat
