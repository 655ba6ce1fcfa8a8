#include "scheduler/recipes/metric.h"

#include <algorithm>

#include "devices/base/text.h"
#include "scheduler/recipes/metrics.h"

namespace leat {
namespace {

constexpr std::string_view kAverages[] = {"macro", "micro"};
constexpr Setting kAverage[] = {
    {.name = "average", .kind = SettingKind::choice, .choices = kAverages},
};
constexpr Setting kTopK[] = {
    {.name = "k", .kind = SettingKind::integer, .initial = 5, .min = 1, .max = 1 << 20},
};
constexpr Setting kAuc[] = {
    {.name = "thresholds", .kind = SettingKind::integer, .initial = 200, .min = 2, .max = 10000},
    {.name = "exact", .kind = SettingKind::flag},
};

constexpr Setting kBytes[] = {
    {.name = "bytes_per_token", .initial = 1, .min = 0, .min_open = true},
};
// -1: each label is a word.
constexpr Setting kWords[] = {
    {.name = "separator", .kind = SettingKind::integer, .initial = -1, .min = -1, .max = 1 << 30},
};

constexpr Labels kClasses[] = {Labels::classes};
constexpr Labels kDecisions[] = {Labels::classes, Labels::binary};
constexpr Labels kLists[] = {Labels::classes, Labels::sequence};
constexpr Labels kValues[] = {Labels::values};

constexpr MetricRecipe kMetrics[] = {
    {"accuracy", {}, kDecisions},
    {"top_k", kTopK, kClasses, metrics::top_k_sums, metrics::ratio, true, false, true},
    {"precision", kAverage, kDecisions, metrics::class_sums, metrics::precision},
    {"recall", kAverage, kDecisions, metrics::class_sums, metrics::recall},
    {"f1", kAverage, kDecisions, metrics::class_sums, metrics::f1},
    {"iou", {}, kDecisions, metrics::class_sums, metrics::iou},
    {"matthews", {}, kDecisions, metrics::class_sums, metrics::matthews},
    {"confusion_matrix", {}, kDecisions, metrics::confusion_sums, metrics::matrix, true, true},
    {"auc", kAuc, kDecisions, metrics::auc_sums, metrics::auc},
    {"perplexity", {}, kClasses, metrics::perplexity_sums, metrics::perplexity, false},
    {"bits_per_token", {}, kClasses, metrics::perplexity_sums, metrics::bits, false},
    {"bits_per_byte", kBytes, kClasses, metrics::perplexity_sums, metrics::bits, false},
    {"edit_distance", {}, kLists, metrics::edit_sums, metrics::ratio, false},
    {"exact_match", {}, kLists, metrics::match_sums, metrics::ratio},
    {"cer", {}, kLists, metrics::character_sums, metrics::ratio, false},
    {"wer", kWords, kLists, metrics::word_sums, metrics::ratio, false},
    {"mae", {}, kValues, metrics::absolute_sums, metrics::ratio, false, false, true},
    {"mse", {}, kValues, metrics::squared_sums, metrics::ratio, false, false, true},
    {"rmse", {}, kValues, metrics::squared_sums, metrics::root_of_ratio, false},
    {"r2", {}, kValues, metrics::variance_sums, metrics::r2},
};

// Describes labels for people.
std::string_view words_for(Labels labels) {
  switch (labels) {
    case Labels::none:
      return "no labels";
    case Labels::classes:
      return "classes";
    case Labels::sequence:
      return "sequences";
    case Labels::binary:
      return "binary labels";
    case Labels::values:
      return "numbers as labels";
  }
  return "";
}

}  // namespace

std::span<const MetricRecipe> all_metrics() { return kMetrics; }

const MetricRecipe* find_metric(std::string_view name) {
  const auto found = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                  [&](const MetricRecipe& each) { return each.name == name; });
  return found == std::end(kMetrics) ? nullptr : &*found;
}

MetricSpec MetricSpec::of(std::string_view name) {
  return {std::string(name), SettingValues(find_metric(name)->settings)};
}

std::string MetricSpec::shown_name() const {
  if (settings.has("k")) return cat("top_", settings.integer("k"));
  if (gathers()) return "exact_" + name;
  if (settings.has("average") && settings.integer("average") > 0)
    return cat(name, "_", kAverages[static_cast<size_t>(settings.integer("average"))]);
  return name;
}

Status MetricSpec::check_fits(const LossSpec& loss) const {
  const auto& fits = recipe().fits;
  const bool soft = loss.soft_labels() && recipe().sums == metrics::perplexity_sums;
  if (std::find(fits.begin(), fits.end(), loss.labels()) != fits.end() && !soft) return {};
  std::vector<std::string_view> expected;
  for (const Labels labels : fits) expected.push_back(words_for(labels));
  return invalid_argument(cat(name, ": expected a loss of ", join(expected, " or of "),
                              ", received ", loss.name, ", which has ",
                              soft ? "soft labels" : words_for(loss.labels())));
}

}  // namespace leat
