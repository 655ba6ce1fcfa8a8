#include "daemon/training/evaluation_sums.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// There is a fetch of the number of labels without their weights.
bool weighs_labels(const TrainSpec& spec) {
  return spec.accuracy && !spec.loss.class_weights.empty() && spec.loss.has_class_labels();
}

}  // namespace

EvaluationSums::EvaluationSums(const TrainSpec& spec)
    : spec_(spec),
      weighs_labels_(weighs_labels(spec)),
      terms_(spec.losses().size()),
      sums_(spec.metrics.size()),
      widths_(spec.metrics.size(), 1) {}

Status EvaluationSums::check_size(const TrainSpec& spec, const Plan& plan, int64_t steps) {
  constexpr int64_t kMostNumbers = int64_t{1} << 25;
  size_t next = 2 + (spec.accuracy ? 1 : 0) + (weighs_labels(spec) ? 1 : 0);
  for (const MetricSpec& metric : spec.metrics) {
    const int64_t each = plan.fetches[next++].shape.elements();
    if (!metric.gathers() || each <= kMostNumbers / std::max<int64_t>(steps, 1)) continue;
    return invalid_argument(cat("metrics: ", metric.name, ": exact: expected at most ",
                                kMostNumbers, " numbers, the scores and labels of all rows of ",
                                "a validation, received ", each, " of each of ", steps,
                                " steps; validation.rows takes fewer rows, and without exact the "
                                "metric keeps none"));
  }
  return {};
}

void EvaluationSums::add(PlanRun& run, uint64_t step) {
  uint32_t next = 0;
  const auto add_term = [&](Term& term) {
    term.loss += run.fetched_scalar(next++, step);
    const double counted = run.fetched_scalar(next++, step);
    term.counted += counted;
    return counted;
  };
  const double counted = add_term(terms_[0]);
  if (spec_.accuracy) correct_ += run.fetched_scalar(next++, step);
  labels_ += weighs_labels_ ? run.fetched_scalar(next++, step) : counted;
  for (size_t m = 0; m < sums_.size(); ++m) {
    std::vector<double>& sums = sums_[m];
    const Tensor values = run.fetched(next++, step);
    if (spec_.metrics[m].gathers()) {
      widths_[m] = static_cast<size_t>(values.shape()[1]);
      for (int64_t i = 0; i < values.elements(); ++i) sums.push_back(values.at(i));
      continue;
    }
    sums.resize(static_cast<size_t>(values.elements()));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values.at(static_cast<int64_t>(i));
  }
  for (size_t i = 1; i < terms_.size(); ++i) add_term(terms_[i]);
}

// The means are taken once, over all rows.
Evaluation EvaluationSums::finish() const {
  Evaluation out;
  const std::vector<const LossSpec*> losses = spec_.losses();
  for (size_t i = 0; i < terms_.size(); ++i) {
    const double mean = terms_[i].loss / terms_[i].counted;
    out.loss += losses[i]->weight * mean;
    if (terms_.size() > 1) out.metrics.push_back({losses[i]->shown_name(), mean});
  }
  if (spec_.accuracy) out.accuracy = correct_ / labels_;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const MetricSpec& metric = spec_.metrics[i];
    if (sums_[i].empty()) continue;  // there was no step
    const auto values =
        metric.recipe().finish(sums_[i], {metric.settings, spec_.loss.labels(), widths_[i]});
    if (metric.recipe().is_matrix)
      out.confusion = values;
    else
      out.metrics.push_back({metric.shown_name(), values[0]});
  }
  return out;
}

}  // namespace leat
