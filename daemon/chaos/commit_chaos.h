// Does to processes of this machine what a fault says.
#pragma once

#include <sys/types.h>

#include <span>

#include "daemon/spec/chaos_fault.h"

namespace leat {

// `processes`: those that the fault is for, this one last if it is one of them. Of `hang` it stops
// the threads of this process that compute, and no other; `corrupt` and `slow` are this process's
// alone. Returns if this process outlives it,
// after it went on. Threads: any.
void commit_chaos(const ChaosFault& fault, std::span<const pid_t> processes);

}  // namespace leat
