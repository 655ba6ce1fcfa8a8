// How far a log of metrics goes, without its values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

struct MetricsExtent {
  int64_t last_step = 0;                         // the last one that has a row
  std::set<std::pair<int64_t, int64_t>> epochs;  // those with a row, each with its last step
};

// The extent of the log at `path`, as MetricsLog::open() would keep it; empty if there is none.
Result<MetricsExtent> read_metrics_extent(Files& files, const std::string& path);

}  // namespace leat
