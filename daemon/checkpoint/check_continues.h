// The check whether a job may continue from a checkpoint.
//
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "daemon/checkpoint/manifest.h"
#include "daemon/spec/job.h"
#include "devices/base/status.h"

namespace leat {

// Checks that the job continues the run that wrote the checkpoint: each step reads the same rows as
// that run would have read, and the checkpoint's step is not beyond `total_steps`. `job` is the
// manifest that the job would write; only its job, seed, shards and data count. Anything else in a
// job may change. invalid_argument names all differences.
Status check_continues(const Manifest& from, const Manifest& job, int64_t total_steps);

// The same check before the job's data is read: it assumes that the job has the checkpoint's data.
Status check_continues(const Manifest& from, const Job& job);

}  // namespace leat
