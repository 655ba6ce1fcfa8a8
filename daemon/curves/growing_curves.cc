#include "daemon/curves/growing_curves.h"

#include <cmath>

namespace leat {
namespace {

// A line of the log has a few numbers. A longer one is no line of the log.
constexpr size_t kLongestLine = 1 << 16;

}  // namespace

void GrowingCurve::add(double step, double value) {
  while (!points_.empty() && points_.back().step >= step) points_.pop_back();
  if (!std::isfinite(value)) return;
  if (points_.empty() || points_.back().rows >= rows_of_point_) points_.push_back({});
  Point& point = points_.back();
  point.step = step;
  point.sum += value;
  ++point.rows;
  if (points_.size() > 2 * most_) halve();
}

void GrowingCurve::halve() {
  for (size_t i = 0; i < points_.size(); i += 2) {
    Point point = points_[i];
    if (i + 1 < points_.size()) {
      point.step = points_[i + 1].step;
      point.sum += points_[i + 1].sum;
      point.rows += points_[i + 1].rows;
    }
    points_[i / 2] = point;
  }
  points_.resize((points_.size() + 1) / 2);
  rows_of_point_ *= 2;
}

Curve GrowingCurve::curve(const std::string& label) const {
  Curve out;
  out.label = label;
  for (const Point& point : points_) {
    out.steps.push_back(point.step);
    out.values.push_back(point.sum / static_cast<double>(point.rows));
  }
  return out;
}

void GrowingCurves::add(std::string_view text) {
  unfinished_ += text;
  const size_t end = unfinished_.rfind('\n');
  if (end == std::string::npos) {
    if (unfinished_.size() > kLongestLine) unfinished_.clear();
    return;
  }
  const MetricsTable table = parse_metrics(std::string_view(unfinished_).substr(0, end));
  unfinished_.erase(0, end + 1);
  add_rows(table.of_steps, steps_);
  add_rows(table.of_epochs, epochs_);
  add_rows(table.of_validations, validations_);
}

// A number of validations that have rows of their own is in the rows of epochs, too, which have
// fewer.
std::vector<Curve> GrowingCurves::of_epochs() const {
  Curves all = validations_;
  all.insert(epochs_.begin(), epochs_.end());
  return curves(all);
}

void GrowingCurves::add_rows(const MetricsRows& rows, Curves& to) const {
  for (size_t n = 0; n < rows.names.size(); ++n) {
    auto found = to.find(rows.names[n]);
    if (found == to.end()) {
      if (to.size() >= kMostMetrics) continue;
      found = to.emplace(rows.names[n], GrowingCurve(most_points_)).first;
    }
    for (size_t i = 0; i < rows.size(); ++i)
      found->second.add(static_cast<double>(rows.steps[i]), rows.values[i][n]);
  }
}

std::vector<Curve> GrowingCurves::curves(const Curves& from) {
  std::vector<Curve> out;
  for (const auto& [name, curve] : from) out.push_back(curve.curve(name));
  return out;
}

}  // namespace leat
