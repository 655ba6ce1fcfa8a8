// The page of one job, for people.
//
// Threads: pure functions.
#pragma once

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// Returns the page with the job's curves, and with the lines in `log`, which are the newest of the
// job's log.
HttpResponse job_page(const JobView& job, const LogPage& log, const ClusterView& cluster,
                      const CurvesView& curves = {});

// Returns the page of a part of the job's log, with links to the `most` lines before and behind it.
HttpResponse job_log_page(const JobView& job, const LogPage& log, uint64_t most);

}  // namespace leat
