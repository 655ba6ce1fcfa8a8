// The values of metrics from their sums. Pure functions of f64.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

#include "scheduler/recipes/metrics.h"

namespace leat::metrics {
namespace {

// 0 if nothing counts, as scikit-learn and torchmetrics have it.
double divided(double a, double b) { return b == 0 ? 0 : a / b; }

// The numbers of a class.
struct ClassCounts {
  double hits, predictions, labels;
};

ClassCounts counts_of(Sums sums, size_t c) {
  const size_t classes = sums.size() / 3;
  return {sums[c], sums[classes + c], sums[2 * classes + c]};
}

// The score of class 1 of two, or the average over the classes.
double averaged(Sums sums, const MetricContext& m,
                const std::function<double(const ClassCounts&)>& score) {
  const size_t classes = sums.size() / 3;
  if (m.labels == Labels::binary) return score(counts_of(sums, 1));
  const bool micro = m.settings.has("average") && m.settings.integer("average") == 1;
  ClassCounts all = {};
  double sum = 0, present = 0;
  for (size_t c = 0; c < classes; ++c) {
    const ClassCounts each = counts_of(sums, c);
    all = {all.hits + each.hits, all.predictions + each.predictions, all.labels + each.labels};
    // A class that neither labels nor predictions have does not count.
    if (each.predictions + each.labels == 0) continue;
    sum += score(each);
    ++present;
  }
  return micro ? score(all) : divided(sum, present);
}

}  // namespace

Values ratio(Sums sums, const MetricContext&) { return {divided(sums[0], sums[1])}; }

Values root_of_ratio(Sums sums, const MetricContext&) {
  return {std::sqrt(divided(sums[0], sums[1]))};
}

Values bits(Sums sums, const MetricContext& m) {
  const double bytes = m.settings.has("bytes_per_token") ? m.settings.number("bytes_per_token") : 1;
  return {divided(sums[0], sums[1] * bytes) / std::numbers::ln2};
}

Values perplexity(Sums sums, const MetricContext&) { return {std::exp(divided(sums[0], sums[1]))}; }

Values precision(Sums sums, const MetricContext& m) {
  return {averaged(sums, m, [](const ClassCounts& c) { return divided(c.hits, c.predictions); })};
}

Values recall(Sums sums, const MetricContext& m) {
  return {averaged(sums, m, [](const ClassCounts& c) { return divided(c.hits, c.labels); })};
}

Values f1(Sums sums, const MetricContext& m) {
  return {averaged(
      sums, m, [](const ClassCounts& c) { return divided(2 * c.hits, c.predictions + c.labels); })};
}

Values iou(Sums sums, const MetricContext& m) {
  return {averaged(sums, m, [](const ClassCounts& c) {
    return divided(c.hits, c.predictions + c.labels - c.hits);
  })};
}

// Source: Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient
// (2004).
Values matthews(Sums sums, const MetricContext&) {
  double hits = 0, all = 0, products = 0, predictions = 0, labels = 0;
  for (size_t c = 0; c < sums.size() / 3; ++c) {
    const ClassCounts each = counts_of(sums, c);
    hits += each.hits;
    all += each.labels;
    products += each.predictions * each.labels;
    predictions += each.predictions * each.predictions;
    labels += each.labels * each.labels;
  }
  const double scale = std::sqrt((all * all - predictions) * (all * all - labels));
  return {divided(hits * all - products, scale)};
}

Values matrix(Sums sums, const MetricContext&) { return {sums.begin(), sums.end()}; }

namespace {

// The probability that a row of the class has a greater score than another row, where equal scores
// count half: the area of Mann and Whitney (1947). Counts are exact in f64.
double exact_area(std::vector<std::pair<double, bool>>& scored) {
  std::sort(scored.begin(), scored.end());
  double below = 0, area = 0, own = 0;
  for (size_t begin = 0; begin < scored.size();) {
    size_t end = begin;
    double positives = 0;
    for (; end < scored.size() && scored[end].first == scored[begin].first; ++end)
      positives += scored[end].second ? 1 : 0;
    const double negatives = static_cast<double>(end - begin) - positives;
    area += positives * (below + negatives / 2);
    below += negatives;
    own += positives;
    begin = end;
  }
  return divided(area, own * below);
}

// The rows are [scores of the classes, label].
Values exact_auc(Sums rows, const MetricContext& m) {
  const size_t classes = m.width - 1;
  double total = 0;
  std::vector<std::pair<double, bool>> scored;
  for (size_t c = 0; c < classes; ++c) {
    scored.clear();
    for (size_t row = 0; row + m.width <= rows.size(); row += m.width) {
      const double label = rows[row + classes], score = rows[row + c];
      if (label < 0) continue;
      // A NaN has no order: it counts as the least score.
      const bool is_own = label == (m.labels == Labels::binary ? 1 : static_cast<double>(c));
      scored.emplace_back(std::isnan(score) ? -std::numeric_limits<double>::infinity() : score,
                          is_own);
    }
    total += exact_area(scored);
  }
  return {divided(total, static_cast<double>(classes))};
}

}  // namespace

Values auc(Sums sums, const MetricContext& m) {
  if (m.settings.flag("exact")) return exact_auc(sums, m);
  const auto thresholds = static_cast<size_t>(m.settings.integer("thresholds"));
  const size_t classes = sums.size() / 2 / thresholds;
  double total = 0;
  for (size_t c = 0; c < classes; ++c) {
    const Sums own = sums.subspan(c * thresholds, thresholds);
    const Sums others = sums.subspan((classes + c) * thresholds, thresholds);
    // Every probability is at least 0, so the first sums count all labels. The trapezoids between
    // the points of two thresholds.
    double area = 0;
    for (size_t t = 0; t + 1 < thresholds; ++t)
      area += (others[t] - others[t + 1]) * (own[t] + own[t + 1]) / 2;
    total += divided(area, own[0] * others[0]);
  }
  return {divided(total, static_cast<double>(classes))};
}

Values r2(Sums sums, const MetricContext&) {
  const size_t elements = (sums.size() - 1) / 3;
  const double rows = sums.back();
  double total = 0;
  for (size_t e = 0; e < elements; ++e) {
    const double sum = sums[e];
    const double variance = sums[elements + e] - divided(sum * sum, rows);
    total += 1 - divided(sums[2 * elements + e], variance);
  }
  return {divided(total, static_cast<double>(elements))};
}

}  // namespace leat::metrics
