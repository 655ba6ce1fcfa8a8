// Reads the keys optimizer and lr_scheduler of a job file.
#pragma once

#include "daemon/base/yaml_reader.h"
#include "daemon/spec/job.h"

namespace leat {

// The reader gets the errors. An absent map leaves what it has. `accumulate`: the parts in which a
// worker computes its rows of a step; they are a default of the job's shards.
void read_optimizer(YamlMap map, OptimizerSpec& optimizer, int64_t& accumulate);
// Reads job.lr_scheduler and job.plateau. REQUIRES: job.metrics is read.
void read_scheduler(YamlMap map, Job& job);

}  // namespace leat
