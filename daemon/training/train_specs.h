// Translates a job's settings into the specs of the graphs that the job computes.
#pragma once

#include <cstdint>

#include "daemon/spec/job.h"
#include "ops/data/dataset.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/train_graph.h"

namespace leat {

// The attributes of the op that reads rows of a data set. Names of files are relative to the data
// root of the job on each host. The seed is stored as int64; the op casts it back.
Attrs reader_attrs(const Job::Files& files, const DatasetInfo& info, bool shuffle, uint64_t seed);
// True if the job asks for the accuracy of each step.
bool has_accuracy(const Job& job);
// The spec of the job's training graph. `info`: of the training data. `total_steps`: of the job; a
// learning rate schedule that names no end of its decay ends with the job. The result does not
// refer to the job. Parameters whose names match a pattern of model.freeze are frozen: '*' stands
// for any characters, '?' for one.
TrainSpec train_spec(const Job& job, const DatasetInfo& info, int64_t total_steps);

}  // namespace leat
