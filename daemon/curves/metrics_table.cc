#include "daemon/curves/metrics_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "devices/base/text.h"

namespace leat {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// JSON has no infinity: the log writes the word.
std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_string()) return std::nullopt;
  const auto& word = value.get_ref<const std::string&>();
  if (word == "NaN") return kNone;
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Collects the rows of one kind by their step (or epoch), which a later row may replace.
class RowCollector {
 public:
  void add(int64_t key, int64_t step, int64_t epoch, const Json& line) {
    Row row{step, epoch, {}};
    add_numbers(line, row);
    rows_.insert_or_assign(key, std::move(row));
  }

  MetricsRows finish() {
    MetricsRows out;
    out.names = std::move(names_);
    for (auto& [key, row] : rows_) {
      out.steps.push_back(row.step);
      out.epochs.push_back(row.epoch);
      row.values.resize(out.names.size(), kNone);
      out.values.push_back(std::move(row.values));
    }
    return out;
  }

 private:
  struct Row {
    int64_t step, epoch;
    std::vector<double> values;
  };

  // The numbers of a nested object, such as the timing, count like the others.
  void add_numbers(const Json& object, Row& row) {
    for (const auto& [name, value] : object.items()) {
      if (name == "step" || name == "epoch" || name == "validation") continue;
      if (value.is_object()) {
        add_numbers(value, row);
      } else if (const auto number = number_of(value)) {
        const size_t at = index_of(name);
        row.values.resize(std::max(row.values.size(), at + 1), kNone);
        row.values[at] = *number;
      }
    }
  }

  size_t index_of(const std::string& name) {
    const auto [found, added] = indices_.try_emplace(name, names_.size());
    if (added) names_.push_back(name);
    return found->second;
  }

  std::map<int64_t, Row> rows_;
  std::vector<std::string> names_;
  std::map<std::string, size_t> indices_;
};

// The integer of a key, at least 1; 0 if there is none.
int64_t count_of(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_integer()) return 0;
  return std::max<int64_t>(0, found->get<int64_t>());
}

void append_curve(const MetricsRows& rows, size_t at, Curve& curve) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!std::isfinite(rows.values[i][at])) continue;
    curve.steps.push_back(static_cast<double>(rows.steps[i]));
    curve.values.push_back(rows.values[i][at]);
  }
}

}  // namespace

size_t MetricsRows::find(std::string_view name) const {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

MetricsTable parse_metrics(std::string_view text) {
  RowCollector steps, epochs, validations;
  MetricsTable table;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const int64_t step = row.is_object() ? count_of(row, "step") : 0;
    if (step == 0) {
      ++table.unreadable;
    } else if (const int64_t epoch = count_of(row, "epoch"); epoch > 0) {
      epochs.add(epoch, step, epoch, row);
    } else if (count_of(row, "validation") > 0) {
      validations.add(step, step, 0, row);
    } else {
      steps.add(step, step, 0, row);
    }
  }
  table.of_steps = steps.finish();
  table.of_epochs = epochs.finish();
  table.of_validations = validations.finish();
  return table;
}

Result<Curve> curve_of(const MetricsTable& table, std::string_view metric) {
  Curve curve;
  curve.label = metric;
  for (const MetricsRows* rows : {&table.of_steps, &table.of_validations, &table.of_epochs}) {
    const size_t at = rows->find(metric);
    if (at == rows->names.size()) continue;
    append_curve(*rows, at, curve);
    return curve;
  }
  std::vector<std::string> names = table.of_steps.names;
  for (const MetricsRows* rows : {&table.of_validations, &table.of_epochs}) {
    for (const std::string& name : rows->names) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return invalid_argument(cat("metric: expected one of ", join(names, ", "), ", received '", metric,
                              "'", did_you_mean(metric, names)));
}

void smooth(Curve& curve, int64_t window) {
  if (window < 1) return;
  const auto reach = static_cast<size_t>(window);
  const size_t n = curve.values.size();
  std::vector<double> sums{0};  // of the values before each
  for (const double value : curve.values) sums.push_back(sums.back() + value);
  for (size_t i = 0; i < n; ++i) {
    const size_t first = i - std::min(i, reach), end = std::min(n, i + reach + 1);
    curve.values[i] = (sums[end] - sums[first]) / static_cast<double>(end - first);
  }
}

Curve thinned(const Curve& curve, size_t buckets) {
  const size_t n = curve.values.size();
  if (buckets == 0 || n <= 2 * buckets) return curve;
  Curve out;
  out.label = curve.label;
  for (size_t b = 0; b < buckets; ++b) {
    const size_t first = b * n / buckets, end = (b + 1) * n / buckets;
    const auto begin = curve.values.begin();
    const auto [least, most] = std::minmax_element(begin + static_cast<ptrdiff_t>(first),
                                                   begin + static_cast<ptrdiff_t>(end));
    const auto at = std::minmax({least - begin, most - begin});
    for (const ptrdiff_t i : {at.first, at.second}) {
      out.steps.push_back(curve.steps[static_cast<size_t>(i)]);
      out.values.push_back(curve.values[static_cast<size_t>(i)]);
      if (at.first == at.second) break;
    }
  }
  return out;
}

}  // namespace leat
