// The part of a log of metrics that is equal in two runs of one training at different speeds.
#pragma once

#include <string>

namespace leat {

// Returns the rows of a metrics.jsonl without the field "timing", which is the last of each row and
// depends on speed.
inline std::string without_timing(std::string rows) {
  const std::string timing = ", \"timing\": {";
  for (size_t at = rows.find(timing); at != std::string::npos; at = rows.find(timing, at))
    rows.erase(at, rows.find('}', at) + 1 - at);
  return rows;
}

}  // namespace leat
