// Numbers for Prometheus, in its text exposition format 0.0.4. Names begin with "leat_" and end in
// their unit ("_seconds", "_bytes"); those of counters in "_total".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace leat {

enum class MetricKind : uint8_t {
  gauge,
  counter,  // only rises, but for a restart of the process
};

struct MetricSample {
  std::vector<std::pair<std::string, std::string>> labels;  // name and value
  double value = 0;
};

// Samples of one name; no two have equal labels.
struct Metric {
  std::string name;
  std::string help;  // one sentence, without its stop
  MetricKind kind = MetricKind::gauge;
  std::vector<MetricSample> samples;
};

// The metrics in their order; one without samples is left out. Any text may stand in a label's
// value. REQUIRES: names of metrics and labels are [a-zA-Z_][a-zA-Z0-9_]*, no metric twice.
std::string metrics_text(std::span<const Metric> metrics);

}  // namespace leat
