// Reads the keys optimizer and lr_scheduler of a job file.
#pragma once

#include "daemon/base/yaml_reader.h"
#include "scheduler/recipes/optimizer.h"
#include "scheduler/recipes/schedule.h"

namespace leat {

// The reader gets the errors. An absent map leaves what it has. `accumulate`: the parts in which a
// worker computes its rows of a step; they are a default of the job's shards.
void read_optimizer(YamlMap map, OptimizerSpec& optimizer, int64_t& accumulate);
void read_scheduler(YamlMap map, ScheduleSpec& scheduler);

}  // namespace leat
