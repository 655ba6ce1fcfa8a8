// The page /jobs/{id}/steps, for which the master records the next steps of the job.
#pragma once

#include <vector>

#include "daemon/master/job_service.h"
#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// Returns the routes. Both arguments outlive them.
std::vector<HttpRoute> step_routes(JobService& jobs, const StatusSource& source);

}  // namespace leat
