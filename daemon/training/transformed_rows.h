// The transforms of a job on rows that it did not read itself: those of a prediction.
//
// Threads: functions of their arguments.
#pragma once

#include <string>
#include <vector>

#include "daemon/spec/job.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/op.h"

namespace leat {

// The transforms of the job that draw nothing and belong to an input of its model. One without a
// column belongs to the first input; `only`: the model has no other input, so that all belong to it
// but those of the labels. The result has no columns' names.
std::vector<Transform> transforms_of_input(const Job& job, const std::string& input, bool first,
                                           bool only);

// Rows behind these transforms, and whether the job's factor is in them.
struct TransformedRows {
  Tensor rows;
  bool rescaled = false;
};
// Applies transforms to all rows, a part of them at a time, in this thread. invalid_argument if one
// does not fit the rows.
Result<TransformedRows> transform_rows(const Catalogue& catalogue, const Job& job,
                                       const std::vector<Transform>& transforms, Tensor rows);

}  // namespace leat
