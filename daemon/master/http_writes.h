// The requests over HTTP that change something: POST /api/v1/jobs, which submits a job, and
// POST /api/v1/jobs/{id}/cancel, /pause and /resume. They do what the commands of these names do,
// with the same checks; docs/status.md describes them for people.
#pragma once

#include <string_view>
#include <vector>

#include "daemon/jobs/records.h"
#include "daemon/master/job_service.h"
#include "daemon/status/http.h"
#include "daemon/status/status_source.h"
#include "devices/base/status.h"

namespace leat {

// Returns the routes. Both arguments outlive them. They need a token: see HttpPolicy::write_token.
std::vector<HttpRoute> write_routes(JobService& jobs, const StatusSource& source);

// Reads the body of a submit:
//
//   {"job": "version: 1\n...", "files": {"graph.onnxtxt": "...", "w.npz": {"base64": "..."}},
//    "set": ["steps=100"], "request_id": "..."}
//
// Only `job`, the text of the job file, is required. A request without an id gets one at random:
// repeated, it is another job. invalid_argument, naming the key, for anything else.
Result<Submission> read_http_submission(std::string_view body);

}  // namespace leat
