// The transforms of a job (scheduler/recipes/transform.h) where its data are checked, and where a
// prediction reads other data.
//
// Threads: functions of their arguments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/spec/job.h"
#include "devices/base/status.h"
#include "ops/data/columns.h"
#include "ops/graph/graph.h"

namespace leat {

// The columns of data as the model sees them behind the job's transforms; the random ones count
// `in_training`. invalid_argument if one does not fit its column.
Result<std::vector<ColumnInfo>> columns_behind_transforms(const Job& job, const Graph& model,
                                                          const std::vector<ColumnInfo>& columns,
                                                          bool in_training);

// The job's transforms for data that have other columns: `columns` of the model's inputs, by the
// inputs' names; none for the only column of a model with one input. Those of labels are left out.
std::vector<Transform> transforms_of_columns(const Job& job,
                                             const std::map<std::string, std::string>& columns);

}  // namespace leat
