// The order in which the status page and `leat ps` show jobs.
#pragma once

#include <span>
#include <vector>

#include "daemon/jobs/events.h"

namespace leat {

// Returns the jobs that have workers, the newest first; then the queue, in its order; then the jobs
// that have ended, the newest first. Threads: a pure function.
std::vector<const JobView*> in_shown_order(std::span<const JobView> jobs);

}  // namespace leat
