// Whether a job may go on from a checkpoint.
//
// Threads: functions of their arguments.
#pragma once

#include <cstdint>

#include "daemon/checkpoint/manifest.h"
#include "daemon/spec/job.h"
#include "devices/base/status.h"

namespace leat {

// Checks that the job continues the run that wrote the checkpoint: each step reads the rows that
// it would have read, and a step is left or the job ends with that one. `job` is the manifest that
// the job would write; only its job, seed, shards and data count. Anything else in a job may
// change.
Status check_continues(const Manifest& from, const Manifest& job, int64_t total_steps);

// The same before the job's data is looked at: it is taken for the data of the checkpoint.
Status check_continues(const Manifest& from, const Job& job);

}  // namespace leat
