// A job's settings in the words of the graphs that are made of them.
#pragma once

#include <cstdint>

#include "daemon/spec/job.h"
#include "ops/data/dataset.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// Of the op that reads rows of a data set.
Attrs reader_attrs(const Job::Files& files, const DatasetInfo& info, bool shuffle, uint64_t seed);
OptimizerSpec optimizer_spec(const Job::Optimizer& o);
// A schedule that names no end of its decay ends with the job, after `total_steps`.
ScheduleSpec schedule_spec(const Job::Scheduler& s, int64_t total_steps);

}  // namespace leat
