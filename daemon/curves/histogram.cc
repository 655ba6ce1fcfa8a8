#include "daemon/curves/histogram.h"

#include <algorithm>
#include <cmath>

namespace leat {
namespace {

constexpr size_t kParts = 30;

}  // namespace

Histogram histogram_of(const Tensor& tensor) {
  Histogram all;
  const int64_t elements = tensor.elements();
  for (int64_t i = 0; i < elements; ++i) {
    const double value = tensor.at(i);
    if (!std::isfinite(value)) {
      ++all.not_finite;
      continue;
    }
    all.min = all.count == 0 ? value : std::min(all.min, value);
    all.max = all.count == 0 ? value : std::max(all.max, value);
    all.sum += value;
    all.sum_of_squares += value * value;
    ++all.count;
  }
  if (all.count == 0) return all;
  if (all.min == all.max) {
    all.limits = {all.max + 0.5};
    all.counts = {static_cast<double>(all.count)};
    return all;
  }
  // Halves, since the width of all may be more than a double can have.
  const double half = all.max / 2 - all.min / 2;
  for (size_t i = 1; i <= kParts; ++i) {
    const double share = static_cast<double>(i) / kParts;
    all.limits.push_back(i == kParts ? all.max : all.min + half * share + half * share);
  }
  all.counts.assign(kParts, 0);
  for (int64_t i = 0; i < elements; ++i) {
    const double value = tensor.at(i);
    if (!std::isfinite(value)) continue;
    const double place = (value / 2 - all.min / 2) / half * kParts;
    ++all.counts[std::min(static_cast<size_t>(place), kParts - 1)];
  }
  return all;
}

}  // namespace leat
