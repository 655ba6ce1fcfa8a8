#include "daemon/curves/histogram.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "devices/base/float16.h"

namespace leat {
namespace {

constexpr size_t kParts = 30;

template <typename T>
double number_of(T element) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(element);
  else
    return to_float(element);
}

// Calls `take` with each finite element.
template <typename Take>
void visit_finite(const Tensor& tensor, Take&& take) {
  dispatch_dtype(tensor.dtype(), [&](auto tag) {
    for (const auto element : tensor.span<decltype(tag)>()) {
      if (const double value = number_of(element); std::isfinite(value)) take(value);
    }
  });
}

}  // namespace

Histogram histogram_of(const Tensor& tensor) {
  Histogram all;
  visit_finite(tensor, [&](double value) {
    all.min = all.count == 0 ? value : std::min(all.min, value);
    all.max = all.count == 0 ? value : std::max(all.max, value);
    all.sum += value;
    all.sum_of_squares += value * value;
    ++all.count;
  });
  all.not_finite = static_cast<uint64_t>(tensor.elements()) - all.count;
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
  visit_finite(tensor, [&](double value) {
    const double place = (value / 2 - all.min / 2) / half * kParts;
    ++all.counts[std::min(static_cast<size_t>(place), kParts - 1)];
  });
  return all;
}

}  // namespace leat
