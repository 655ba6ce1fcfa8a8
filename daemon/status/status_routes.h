// The routes that daemons answer over HTTP; docs/status.md describes them for people.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/status/http_server.h"
#include "daemon/status/status_source.h"

namespace leat {

// Returns the routes of every daemon: /healthz/live, /healthz/ready (503, with the reason, while
// `ready` is not ok) and /metrics. Both functions run on the server's thread, so they must not
// block.
std::vector<HttpRoute> health_routes(std::function<Status()> ready,
                                     std::function<std::vector<Metric>()> metrics);

// Returns the response for an error of a StatusSource: 404 for a job that there is not, 409 for the
// beginning of several ids.
HttpResponse http_failure(const Status& status);

// Returns the routes of a master: those of health_routes(), the JSON of /api/v1, and the pages.
// `source` must outlive the routes.
std::vector<HttpRoute> status_routes(const StatusSource& source,
                                     std::shared_ptr<const HttpCounters> counters);

// Opens a server of a master's routes and of `more`, the routes that need the master itself. Errors
// as of HttpServer::open().
Result<std::unique_ptr<HttpServer>> open_status_server(Reactor& reactor, const std::string& address,
                                                       const StatusSource& source,
                                                       HttpOptions options = {},
                                                       std::vector<HttpRoute> more = {});

}  // namespace leat
