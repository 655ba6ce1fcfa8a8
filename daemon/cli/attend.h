// Staying with a job until it has ended.
#pragma once

#include <string>

#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/jobs/events.h"

namespace leat {

// Waits until the job has ended; with Attend::follow it shows on stderr, as `leat train` does, how
// it goes. The last line, on stdout, is what became of it; with --json it is the job, and following
// prints the job at every change. The exit code: 0 if it succeeded, 1 if it failed or was
// cancelled, 124 after the timeout, 130 after Ctrl-C: the job goes on then, and the words on stderr
// say how to come back to it and how to end it.
int attend_job(ClusterConnection& connection, JobView job, const ClusterOptions& options,
               Attend attend);

// "fashion-mnist-cnn-7f3a SUCCEEDED: accuracy 0.9150, ..., weights_sha256 33..., shards 4, seed 11,
// cpu AMD EPYC 9454P"
std::string outcome_line(const JobView& job);

}  // namespace leat
