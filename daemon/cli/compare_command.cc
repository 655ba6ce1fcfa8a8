// leat compare: what two runs differ in, and their curves.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/cli/curve_commands.h"
#include "daemon/cli/print_plot.h"
#include "daemon/cli/run_files.h"
#include "daemon/cli/run_source.h"
#include "daemon/cli/table.h"
#include "daemon/curves/compare_runs.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "ops/formats/weights_hash.h"

namespace leat {
namespace {

constexpr uint64_t kMostJobFile = uint64_t{1} << 20;

// The facts of one run that are compared.
struct Compared {
  std::string shown, job_file;
  std::vector<MetricSummary> metrics;
  std::optional<Curve> loss;  // of a run that has one
  int64_t steps = 0;          // the last one with a row
  double seconds = 0;         // of all epochs, of those that the log has
  std::string weights;        // their hash; empty: the run has left none
};

double sum_of(const MetricsRows& rows, std::string_view name) {
  const size_t at = rows.find(name);
  double sum = 0;
  for (size_t i = 0; i < rows.size() && at < rows.names.size(); ++i) {
    if (std::isfinite(rows.values[i][at])) sum += rows.values[i][at];
  }
  return sum;
}

Result<std::string> hash_of_weights(RunSource& run) {
  const auto path = run.bring("weights.safetensors");
  // A run that has not ended has none.
  if (!path.ok()) return std::string();
  LEAT_ASSIGN_OR_RETURN(const SafeTensors content, read_safetensors(run_files(), *path));
  return weights_sha256(content.tensors);
}

Result<Compared> look_at(RunSource& run) {
  Compared out;
  out.shown = run.shown();
  LEAT_ASSIGN_OR_RETURN(const std::string path, run.bring("job.yaml"));
  LEAT_ASSIGN_OR_RETURN(const Bytes text, read_file(real_files(), path, kMostJobFile));
  out.job_file.assign(reinterpret_cast<const char*>(text.data()), text.size());
  LEAT_ASSIGN_OR_RETURN(const MetricsTable table, run.metrics());
  out.metrics = summarize(table);
  if (auto curve = curve_of(table, "loss"); curve.ok()) {
    out.loss = *std::move(curve);
    out.loss->label = out.shown;
  }
  for (const MetricsRows* rows : {&table.of_steps, &table.of_epochs}) {
    if (rows->size() > 0) out.steps = std::max(out.steps, rows->steps.back());
  }
  out.seconds = sum_of(table.of_epochs, "seconds");
  LEAT_ASSIGN_OR_RETURN(out.weights, hash_of_weights(run));
  return out;
}

std::string number(double value, int64_t epoch = 0) {
  if (std::isnan(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, epoch > 0 ? "%.4f (epoch %lld)" : "%.4f", value,
                static_cast<long long>(epoch));
  return text;
}

using Rows = std::vector<std::vector<std::string>>;

void add_metrics(const Compared& a, const Compared& b, Rows& rows) {
  const auto find = [](const Compared& of, const std::string& name) -> const MetricSummary* {
    for (const MetricSummary& each : of.metrics) {
      if (each.name == name) return &each;
    }
    return nullptr;
  };
  std::vector<std::string> names;
  for (const Compared* each : {&a, &b}) {
    for (const MetricSummary& of : each->metrics) {
      if (std::find(names.begin(), names.end(), of.name) == names.end()) names.push_back(of.name);
    }
  }
  for (const std::string& name : names) {
    const MetricSummary *first = find(a, name), *second = find(b, name);
    const auto last = [](const MetricSummary* of) { return of ? number(of->last) : "-"; };
    const auto best = [](const MetricSummary* of) {
      return of ? number(of->best, of->best_epoch) : "-";
    };
    rows.push_back({name, last(first), last(second)});
    rows.push_back({"best " + name, best(first), best(second)});
  }
}

// The curves of the loss, over each other.
void print_curves(const Compared& a, const Compared& b, ColorMode color) {
  std::vector<Curve> curves;
  for (const Compared* each : {&a, &b}) {
    if (each->loss) curves.push_back(*each->loss);
  }
  if (!curves.empty()) print_plot("\nloss", curves, 12, color);
}

void print_text(const Compared& a, const Compared& b, const std::vector<KeyDifference>& keys,
                ColorMode color) {
  Rows rows;
  for (const KeyDifference& key : keys)
    rows.push_back({key.key, or_dash(key.first), or_dash(key.second)});
  rows.push_back({"steps", cat(a.steps), cat(b.steps)});
  add_metrics(a, b, rows);
  const auto seconds = [](const Compared& of) { return cat(number(of.seconds), " s"); };
  rows.push_back({"training time", seconds(a), seconds(b)});
  const auto weights = [](const Compared& of) { return or_dash(of.weights.substr(0, 16)); };
  rows.push_back({"weights_sha256", weights(a), weights(b)});
  std::fputs(
      format_table({"", a.shown, b.shown}, rows, true, {.columns = stdout_columns()}).c_str(),
      stdout);
  if (!a.weights.empty() && !b.weights.empty())
    std::puts(a.weights == b.weights ? "The weights are the same." : "The weights differ.");
  print_curves(a, b, color);
}

void print_json(const Compared& a, const Compared& b, const std::vector<KeyDifference>& keys) {
  JsonLine line;
  for (const KeyDifference& key : keys) {
    line.clear();
    line.add("kind", "KeyDifference").add("key", key.key);
    line.add("first", key.first).add("second", key.second);
    std::fputs(line.text().c_str(), stdout);
  }
  for (const Compared* each : {&a, &b}) {
    line.clear();
    line.add("kind", "Run").add("run", each->shown).add("steps", each->steps);
    line.add("seconds", each->seconds);
    for (const MetricSummary& of : each->metrics) {
      JsonLine numbers;
      numbers.add("last", of.last).add("best", of.best).add("best_epoch", of.best_epoch);
      line.add(of.name, numbers);
    }
    if (each->weights.empty()) {
      line.add_null("weights_sha256");
    } else {
      line.add("weights_sha256", each->weights);
    }
    std::fputs(line.text().c_str(), stdout);
  }
}

}  // namespace

int run_compare(const CompareCommand& command) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  std::vector<Compared> runs;
  for (const std::string& name : {command.first, command.second}) {
    RunSource run(command.cluster);
    if (const int code = run.open(name); code != kExitOk) return code;
    auto facts = look_at(run);
    if (!facts.ok()) return run.report(facts.status());
    runs.push_back(std::move(facts).value());
  }
  const auto keys = compare_job_files(runs[0].job_file, runs[1].job_file);
  if (!keys.ok()) return report(keys.status(), command.cluster.color);
  if (command.cluster.json) {
    print_json(runs[0], runs[1], *keys);
  } else {
    print_text(runs[0], runs[1], *keys, command.cluster.color);
  }
  return kExitOk;
}

}  // namespace leat
