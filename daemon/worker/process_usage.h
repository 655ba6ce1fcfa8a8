// The CPU time and the memory of a process, from /proc.
#pragma once

#include <sys/types.h>

#include "daemon/jobs/worker_usage.h"

namespace leat {

// Returns the use of the process with this id, of all its threads; nothing (0) of a process that
// has ended. Reads one file of /proc. Threads: any.
WorkerUsage usage_of(pid_t pid);

}  // namespace leat
