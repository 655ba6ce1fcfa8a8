// The distribution of a tensor's elements.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/core/tensor.h"

namespace leat {

// Equal parts of the range from the least to the greatest element. Elements that are not finite
// count in none, and in no number but theirs.
struct Histogram {
  double min = 0, max = 0;
  uint64_t count = 0;       // finite elements
  uint64_t not_finite = 0;  // NaN and infinite ones
  double sum = 0, sum_of_squares = 0;
  // The upper border of each part, the last one being `max`, and the elements in it. Two parts meet
  // at the border of the lower one, which does not belong to it.
  std::vector<double> limits, counts;
};

// Returns the histogram in 30 parts, as tf.summary.histogram has it; one part, half a unit to each
// side, if all elements are equal; no part without a finite element. Elements are converted to
// double. Threads: a pure function.
Histogram histogram_of(const Tensor& tensor);

}  // namespace leat
