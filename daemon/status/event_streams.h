// The streams of server-sent events that a master answers with: changes of jobs and workers, and
// the lines of a job's log.
//
//   GET /api/v1/events            events "job" and "node"
//   GET /api/v1/jobs/{id}/events  the same of one job; ends after the job has
//   GET /api/v1/jobs/{id}/logs/events?from=N   events "line"; ends after the log has
//
// An event "job" is the state of a job after a change. A client that was slow gets the newest state
// and not each one. The id of a line's event is its number. Of the events "job" that come together
// only the last one has an id: the version up to which the client then has all changes. A client
// that comes back with `Last-Event-ID` gets all that is newer. An event "end" is the last one of a
// stream that ends with its job or log.
//
// Threads: one, the server's.
#pragma once

#include <memory>
#include <string>

#include "daemon/status/http_stream.h"
#include "daemon/status/status_feed.h"
#include "daemon/status/status_source.h"

namespace leat {

// Returns the events of all jobs and workers. The stream begins with those jobs whose version is
// higher than `seen`, and with all workers.
std::unique_ptr<HttpStream> stream_cluster(std::shared_ptr<StatusFeed> feed, uint64_t seen);
// Returns the events of the job with this whole id, beginning with its present state.
std::unique_ptr<HttpStream> stream_job(std::shared_ptr<StatusFeed> feed, const StatusSource& source,
                                       std::string id);
// Returns the lines of the log of the job with this whole id, from line `from` on.
std::unique_ptr<HttpStream> stream_log(const StatusSource& source, std::string id, uint64_t from);

}  // namespace leat
