// In which order people see jobs, on the status page and in `leat ps`.
#pragma once

#include <span>
#include <vector>

#include "daemon/jobs/events.h"

namespace leat {

// Those that have workers, the newest first; then the queue, in its order; then those that have
// ended, the newest first. Pure.
std::vector<const JobView*> in_shown_order(std::span<const JobView> jobs);

}  // namespace leat
