// Waiting for a job until it has ended.
#pragma once

#include <string>

#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/jobs/events.h"

namespace leat {

class EventProgram;

// Waits until the job has ended. With Attend::follow it shows the job's progress on stderr, in the
// form of `leat train`. The last line, on stdout, is the outcome. With --json it is the job, and
// following prints the job at every change. Returns the exit code: 0 if the job succeeded, 1 if it
// failed or was cancelled, 124 after the timeout, 130 after Ctrl-C. In the last two cases the job
// continues, and the text on stderr says how to follow it again and how to cancel it. `program`, if
// there is one, gets the job's events, and is ended and reported at the end.
int attend_job(ClusterConnection& connection, JobView job, const ClusterOptions& options,
               Attend attend, EventProgram* program = nullptr);

// Returns the outcome as one line: "fashion-mnist-cnn-7f3a SUCCEEDED: accuracy 0.9150, ...,
// weights_sha256 33..., shards 4, seed 11, cpu AMD EPYC 9454P"
std::string outcome_line(const JobView& job);

}  // namespace leat
