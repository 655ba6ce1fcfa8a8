// Whether a job may go on from a checkpoint.
//
// Threads: functions of their arguments.
#pragma once

#include <cstdint>

#include "daemon/checkpoint/manifest.h"
#include "daemon/job/job.h"
#include "devices/base/status.h"

namespace leat {

// That the job goes on with the run that wrote the checkpoint, so that each step reads what it
// would have read, and has a step left or ends with that one. `job`: what the job would write of
// itself; only its job, seed, shards and data count. Anything else a job says may change on the
// way.
Status check_continues(const Manifest& from, const Manifest& job, int64_t total_steps);

// The same before the job's data is looked at: it is taken for the data of the checkpoint.
Status check_continues(const Manifest& from, const Job& job);

}  // namespace leat
