// The CPU time, the memory and the state of a process, from /proc.
#pragma once

#include <sys/types.h>

#include "daemon/jobs/worker_usage.h"

namespace leat {

// Returns the use of the process with this id, of all its threads; nothing (0) of a process that
// has ended. Reads one file of /proc. Threads: any.
WorkerUsage usage_of(pid_t pid);

// Returns the state of the process as /proc/PID/stat has it: 'R' if it runs, 'S' if it sleeps, 'T'
// or 't' if a signal or a debugger has stopped it; '?' if that cannot be read. Threads: any.
char state_of(pid_t pid);

}  // namespace leat
