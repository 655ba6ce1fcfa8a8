#include "daemon/status/metrics_text.h"

#include <cmath>
#include <string_view>

#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

// Escapes backslash and newline, and in the value of a label also the quote. Replaces bytes that
// are not valid UTF-8, for which Prometheus would refuse the whole text.
std::string escaped(std::string_view text, bool quote) {
  std::string out;
  for (const char c : replaced_utf8(text)) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quote) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return shortest(value);
}

}  // namespace

std::string metrics_text(std::span<const Metric> metrics) {
  std::string out;
  for (const Metric& metric : metrics) {
    if (metric.samples.empty()) continue;
    out += cat("# HELP ", metric.name, " ", escaped(metric.help, false), "\n");
    out += cat("# TYPE ", metric.name, metric.kind == MetricKind::counter ? " counter" : " gauge",
               "\n");
    for (const MetricSample& sample : metric.samples) {
      out += metric.name;
      char before = '{';
      for (const auto& [name, value] : sample.labels) {
        out += cat(before, name, "=\"", escaped(value, true), "\"");
        before = ',';
      }
      if (!sample.labels.empty()) out += '}';
      out += cat(" ", number(sample.value), "\n");
    }
  }
  return out;
}

}  // namespace leat
