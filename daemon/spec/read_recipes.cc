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

// True if greater values of the number are better.
bool rises(const Job& job, std::string_view number) {
  if (number.starts_with(kValidation)) number.remove_prefix(kValidation.size());
  const auto found =
      std::find_if(job.metrics.begin(), job.metrics.end(),
                   [&](const MetricSpec& each) { return each.shown_name() == number; });
  return found != job.metrics.end() && found->recipe().rises;
}

// Of a loss that is a sum.
std::vector<std::string> names_of_terms(const Job& job) {
  std::vector<std::string> names;
  if (job.more_losses.empty()) return names;
  for (const LossSpec* term : job.losses()) names.push_back(term->shown_name());
  return names;
}

}  // namespace

std::vector<std::string> step_numbers(const Job& job) {
  if (job.program) return {};
  std::vector<std::string> names = names_of_terms(job);
  for (const MetricSpec& metric : job.metrics) {
    if (metric.recipe().in_training) names.push_back(metric.shown_name());
  }
  return names;
}

std::vector<std::string> epoch_numbers(const Job& job) {
  std::vector<std::string> names{"loss"};
  const auto accuracy =
      std::find(job.metrics.begin(), job.metrics.end(), MetricSpec::of("accuracy"));
  if (accuracy != job.metrics.end()) names.emplace_back("accuracy");
  const std::vector<std::string> of_steps = step_numbers(job);
  names.insert(names.end(), of_steps.begin(), of_steps.end());
  if (!job.data.validation) return names;
  names.emplace_back("val_loss");
  for (const std::string& term : names_of_terms(job)) names.push_back(cat(kValidation, term));
  for (const MetricSpec& metric : job.metrics) {
    if (!metric.recipe().is_matrix) names.push_back(cat(kValidation, metric.shown_name()));
  }
  return names;
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
      for (const MetricRecipe& each : all_metrics())
        refuse_other_settings(entry.map, metric.name, settings, each.settings);
      read_settings(entry.map, settings, metric.settings);
      if (metric.gathers() && entry.map.has("thresholds"))
        entry.map.fail("thresholds", "expected thresholds or exact, received both");
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
