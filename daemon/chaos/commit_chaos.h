// Injects a fault into processes of this machine.
#pragma once

#include <sys/types.h>

#include <span>

#include "daemon/spec/chaos_fault.h"

namespace leat {

// Injects `fault` into `processes`, which the caller derives from the fault's target; this process
// is the last of them if it is one. `hang` stops only the compute threads of this process;
// `corrupt` and `slow` affect only this process. A `flip` is for
// flip_bit(), and does nothing here. Returns if this process survives; after a stop,
// when it continues. Threads: any.
void commit_chaos(const ChaosFault& fault, std::span<const pid_t> processes);

}  // namespace leat
