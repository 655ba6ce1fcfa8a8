// The page of one job, for people.
//
// Threads: pure functions.
#pragma once

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// With the newest lines of its log, as many as `log` has.
HttpResponse job_page(const JobView& job, const LogPage& log, const ClusterView& cluster);

}  // namespace leat
