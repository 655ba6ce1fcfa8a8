// The page /jobs/{id}/files: the job file, and the files that the job has on the master's disk.
#pragma once

#include <vector>

#include "daemon/master/job_service.h"
#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// Returns the routes, which read the disk on a thread of their own. Both arguments outlive them.
std::vector<HttpRoute> file_routes(JobService& jobs, const StatusSource& source);

}  // namespace leat
