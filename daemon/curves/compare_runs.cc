#include "daemon/curves/compare_runs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "daemon/base/yaml_document.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

// The text of a value, on one line.
std::string flow_text(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar:
      return node.text;
    case YamlNode::Kind::list: {
      std::vector<std::string> items;
      for (const YamlNode& item : node.items) items.push_back(flow_text(item));
      return "[" + join(items, ", ") + "]";
    }
    case YamlNode::Kind::map: {
      std::vector<std::string> items;
      for (size_t i = 0; i < node.keys.size(); ++i)
        items.push_back(cat(node.keys[i].text, ": ", flow_text(node.items[i])));
      return "{" + join(items, ", ") + "}";
    }
  }
  return "";
}

// Each key that has no keys of its own, with its path.
void flatten(const YamlNode& node, const std::string& path, Keys& out) {
  if (node.kind != YamlNode::Kind::map || node.keys.empty()) {
    out.emplace_back(path, flow_text(node));
    return;
  }
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& key = node.keys[i].text;
    flatten(node.items[i], path.empty() ? key : cat(path, ".", key), out);
  }
}

std::string value_of(const Keys& keys, const std::string& key) {
  for (const auto& [name, value] : keys) {
    if (name == key) return value;
  }
  return "";
}

bool tells_time(std::string_view metric) {
  return metric == "seconds" || metric == "samples_per_second";
}

}  // namespace

Result<std::vector<KeyDifference>> compare_job_files(std::string_view first,
                                                     std::string_view second) {
  Keys a, b;
  LEAT_ASSIGN_OR_RETURN(const YamlDocument one, YamlDocument::parse(first, "the first job file"));
  LEAT_ASSIGN_OR_RETURN(const YamlDocument two, YamlDocument::parse(second, "the second job file"));
  flatten(one.top(), "", a);
  flatten(two.top(), "", b);
  std::vector<KeyDifference> out;
  for (const auto& [key, value] : a) {
    if (const std::string other = value_of(b, key); other != value)
      out.push_back({key, value, other});
  }
  for (const auto& entry : b) {
    const auto same = [&](const auto& of) { return of.first == entry.first; };
    if (std::none_of(a.begin(), a.end(), same)) out.push_back({entry.first, "", entry.second});
  }
  return out;
}

bool less_is_better(std::string_view metric) {
  const std::string_view name = metric.starts_with("val_") ? metric.substr(4) : metric;
  return name.find("loss") != std::string_view::npos ||
         name.find("error") != std::string_view::npos ||
         name.find("perplexity") != std::string_view::npos || name == "mae" || name == "mse" ||
         name == "rmse";
}

std::vector<MetricSummary> summarize(const MetricsTable& table) {
  const MetricsRows& rows = table.of_epochs;
  std::vector<MetricSummary> out;
  for (size_t n = 0; n < rows.names.size(); ++n) {
    if (tells_time(rows.names[n])) continue;
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    MetricSummary summary{rows.names[n], kNone, kNone, 0};
    const bool less = less_is_better(rows.names[n]);
    for (size_t i = 0; i < rows.size(); ++i) {
      const double value = rows.values[i][n];
      summary.last = value;
      if (std::isnan(value)) continue;
      const bool better = less ? value < summary.best : value > summary.best;
      if (summary.best_epoch != 0 && !better) continue;
      summary.best = value;
      summary.best_epoch = rows.epochs[i];
    }
    out.push_back(summary);
  }
  return out;
}

}  // namespace leat
