// What daemons answer over HTTP; docs/status.md is the same for people.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/status/http_server.h"
#include "daemon/status/status_source.h"

namespace leat {

// /healthz/live, /healthz/ready (503, with the reason, while `ready` is not ok) and /metrics: what
// every daemon has. The functions answer at once, on the server's thread.
std::vector<HttpRoute> health_routes(std::function<Status()> ready,
                                     std::function<std::vector<Metric>()> metrics);

// Those, the JSON of /api/v1 and the page: what a master has. `source` outlives the routes.
std::vector<HttpRoute> status_routes(const StatusSource& source,
                                     std::shared_ptr<const HttpCounters> counters);

// A server of a master's routes.
Result<std::unique_ptr<HttpServer>> open_status_server(Reactor& reactor, const std::string& address,
                                                       const StatusSource& source,
                                                       HttpOptions options = {});

}  // namespace leat
