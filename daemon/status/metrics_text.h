// Metrics for Prometheus, in its text exposition format 0.0.4. Names begin with "leat_" and end in
// their unit ("_seconds", "_bytes"); those of counters end in "_total".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace leat {

// The types of metrics in Prometheus.
enum class MetricKind : uint8_t {
  gauge,
  counter,  // never falls, except at a restart of the process
};

// One value of a metric.
struct MetricSample {
  std::vector<std::pair<std::string, std::string>> labels;  // name and value
  double value = 0;
};

// The samples with one name; no two have equal labels.
struct Metric {
  std::string name;
  std::string help;  // one sentence, without its full stop
  MetricKind kind = MetricKind::gauge;
  std::vector<MetricSample> samples;
};

// Formats the metrics in their order, without those that have no samples. The value of a label may
// be any text. REQUIRES: names of metrics and labels are [a-zA-Z_][a-zA-Z0-9_]*, no metric twice.
std::string metrics_text(std::span<const Metric> metrics);

}  // namespace leat
