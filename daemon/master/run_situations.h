// The situation of a job's devices, as it follows from the looks at its runners.
//
// Threads: a pure function.
#pragma once

#include <vector>

#include "daemon/remote/run_looks.h"
#include "daemon/traces/situation.h"

namespace leat {

// Adds the partitions of all runs to the situation, each with the one that it waits for. If no
// runner has told of that one, it is added as one that does not answer. Adds to each runner of the
// situation whether it answers, and its oldest call. REQUIRES: the job and its runners are there.
void add_runs(const std::vector<RunnerLook>& looks, Situation& situation);

}  // namespace leat
