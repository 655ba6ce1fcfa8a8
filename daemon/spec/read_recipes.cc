#include "daemon/spec/read_recipes.h"

#include <algorithm>

#include "daemon/base/yaml_document.h"
#include "daemon/spec/read_settings.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kDirections[] = {"min", "max"};
// The prefix of the numbers of the validation.
constexpr std::string_view kValidation = "val_";

std::vector<std::string_view> loss_names() {
  std::vector<std::string_view> names;
  for (const LossRecipe& each : all_losses()) {
    if (each.has_name) names.push_back(each.name);
  }
  return names;
}

// "{a: 1, b: 2}" from "a: 1" and "b: 2".
std::string flow_map(const std::vector<std::string>& entries) {
  return "{" + join(entries, ", ") + "}";
}

// The settings that differ from their defaults.
void print_changed(std::span<const Setting> settings, const SettingValues& values,
                   std::vector<std::string>& entries) {
  for (const Setting& setting : settings) {
    if (values.number(setting.name) != setting.initial)
      entries.push_back(cat(setting.name, ": ", setting_text(setting, values)));
  }
}

// The keys of the entries of a table that `own` may lack.
template <typename Table>
void refuse_others(YamlMap& map, std::string_view name, std::span<const Setting> own,
                   const Table& table) {
  for (const auto& each : table) refuse_other_settings(map, name, own, each.settings);
}

// Those of the losses of classes that are lists, or that may be absent.
void read_class_keys(YamlMap& map, LossSpec& loss) {
  const bool classes = loss.labels() == Labels::classes;
  if (map.has("class_weights") && !classes) {
    map.fail("class_weights", cat("is not a key of ", loss.name));
    map.skip("class_weights");
  }
  if (map.has("ignore_index") && !loss.has_class_labels()) {
    map.fail("ignore_index",
             cat("is not a key of ", loss.name, classes ? " with soft_labels" : ""));
    map.skip("ignore_index");
    return;
  }
  if (int64_t ignored = 0; map.get_int("ignore_index", Need::optional, {}, ignored))
    loss.ignore_index = ignored;
  map.get_floats("class_weights", Need::optional, {.min = 0, .min_open = true}, loss.class_weights);
}

// True if greater values of the number are better.
bool rises(const Job& job, std::string_view number) {
  if (number.starts_with(kValidation)) number.remove_prefix(kValidation.size());
  const auto found =
      std::find_if(job.metrics.begin(), job.metrics.end(),
                   [&](const MetricSpec& each) { return each.shown_name() == number; });
  return found != job.metrics.end() && found->recipe().rises;
}

void read_monitor(YamlMap& map, const Job& job, Job::Monitor& monitor) {
  const std::vector<std::string> names = epoch_numbers(job);
  const std::vector<std::string_view> choices(names.begin(), names.end());
  size_t index = 0;
  if (!map.get_choice("monitor", Need::required, choices, index)) {
    map.skip("mode");
    return;
  }
  monitor = {names[index], rises(job, names[index])};
  if (size_t mode = 0; map.get_choice("mode", Need::optional, kDirections, mode))
    monitor.rises = mode == 1;
}

}  // namespace

std::vector<std::string> epoch_numbers(const Job& job) {
  std::vector<std::string> names{"loss"};
  const auto accuracy =
      std::find(job.metrics.begin(), job.metrics.end(), MetricSpec::of("accuracy"));
  if (accuracy != job.metrics.end()) names.emplace_back("accuracy");
  if (!job.data.validation) return names;
  names.emplace_back("val_loss");
  for (const MetricSpec& metric : job.metrics) {
    if (!metric.recipe().is_matrix) names.push_back(cat(kValidation, metric.shown_name()));
  }
  return names;
}

// A loss is a name, a map with a name, or a map with the graph's output that is the loss.
void read_loss(YamlMap& top, LossSpec& loss) {
  const std::vector<std::string_view> names = loss_names();
  size_t index = 0;
  if (!top.is_map("loss")) {
    if (top.get_choice("loss", Need::required, names, index)) loss = LossSpec::of(names[index]);
    return;
  }
  YamlMap map = top.get_map("loss", Need::required);
  if (map.has("output")) {
    loss = LossSpec::of("output");
    map.get_string("output", Need::required, loss.output, "the name of an output of the graph");
  } else if (map.get_choice("name", Need::required, names, index)) {
    loss = LossSpec::of(names[index]);
    const std::span<const Setting> settings = loss.recipe().settings;
    refuse_others(map, loss.name, settings, all_losses());
    read_settings(map, settings, loss.settings);
    read_class_keys(map, loss);
  } else {
    return;  // without a name, its other keys are not known
  }
  map.finish();
}

void read_metrics(YamlMap& top, Job& job) {
  std::vector<std::string_view> names;
  for (const MetricRecipe& each : all_metrics()) names.push_back(each.name);
  std::vector<YamlNamed> entries;
  top.get_named("metrics", Need::optional, names, entries);
  for (YamlNamed& entry : entries) {
    MetricSpec metric = MetricSpec::of(names[entry.choice]);
    const std::span<const Setting> settings = metric.recipe().settings;
    if (entry.map.present()) {
      refuse_others(entry.map, metric.name, settings, all_metrics());
      read_settings(entry.map, settings, metric.settings);
      entry.map.finish();
    }
    const std::string name = metric.shown_name();
    const bool again =
        std::any_of(job.metrics.begin(), job.metrics.end(),
                    [&](const MetricSpec& each) { return each.shown_name() == name; });
    if (again) top.fail("metrics", cat("expected each metric once, received ", name, " again"));
    if (const Status fits = metric.check_fits(job.loss); !fits.ok())
      top.fail("metrics", fits.message());
    else if (metric.recipe().sums != nullptr && !job.data.validation)
      top.fail("metrics", cat(name, " is of a validation: expected data.validation"));
    job.metrics.push_back(std::move(metric));
  }
}

void read_early_stopping(YamlMap& top, Job& job) {
  YamlMap map = top.get_map("early_stopping", Need::optional);
  if (!map.present()) return;
  Job::EarlyStopping stopping;
  read_monitor(map, job, stopping.monitor);
  map.get_int("patience", Need::optional, {.min = 1, .max = 1'000'000}, stopping.patience);
  map.get_float("min_delta", Need::optional, {.min = 0}, stopping.min_delta);
  map.finish();
  job.early_stopping = std::move(stopping);
}

void read_best(YamlMap& checkpoint, Job& job) {
  YamlMap map = checkpoint.get_map("best", Need::optional);
  if (!map.present()) return;
  if (job.program) {
    checkpoint.fail("best", "expected no such key beside program, which has no validation");
    return;
  }
  Job::Monitor monitor;
  read_monitor(map, job, monitor);
  map.finish();
  job.checkpoint.best = std::move(monitor);
}

// A loss without options is its name.
std::string print_loss(const LossSpec& loss) {
  if (!loss.recipe().has_name) return flow_map({cat("output: ", yaml_string(loss.output))});
  std::vector<std::string> entries{"name: " + loss.name};
  if (loss.ignore_index) entries.push_back(cat("ignore_index: ", *loss.ignore_index));
  print_changed(loss.recipe().settings, loss.settings, entries);
  std::vector<std::string> weights;
  for (const double weight : loss.class_weights) weights.push_back(shortest(weight));
  if (!weights.empty()) entries.push_back(cat("class_weights: [", join(weights, ", "), "]"));
  return entries.size() == 1 ? loss.name : flow_map(entries);
}

std::string print_metrics(const std::vector<MetricSpec>& metrics) {
  std::vector<std::string> texts;
  for (const MetricSpec& metric : metrics) {
    std::vector<std::string> entries{"name: " + metric.name};
    print_changed(metric.recipe().settings, metric.settings, entries);
    texts.push_back(entries.size() == 1 ? metric.name : flow_map(entries));
  }
  return "[" + join(texts, ", ") + "]";
}

std::string print_monitor(const Job::Monitor& monitor) {
  return flow_map(
      {"monitor: " + monitor.metric, cat("mode: ", kDirections[monitor.rises ? 1 : 0])});
}

std::string print_early_stopping(const Job::EarlyStopping& stopping) {
  return flow_map({"monitor: " + stopping.monitor.metric,
                   cat("mode: ", kDirections[stopping.monitor.rises ? 1 : 0]),
                   cat("patience: ", stopping.patience),
                   cat("min_delta: ", shortest(stopping.min_delta))});
}

}  // namespace leat
