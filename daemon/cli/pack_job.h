// A job file and what it names, made ready to be sent to a master.
#pragma once

#include <string>
#include <vector>

#include "daemon/cli/commands.h"
#include "daemon/client/cluster_client.h"
#include "daemon/spec/job.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

struct PackedJob {
  Job job;  // as it is here
  JobRequest request;
  std::vector<std::string> notes;  // for people: about the graph
};

// Checks the job and its graph as far as that can be done without its data, which the workers have,
// and finds the files to take along: the graph as graph/NAME, with an ONNX model's external data
// beside it, and the weights as weights/NAME. The text of the job goes as it is; overrides name the
// files anew. REQUIRES: job file, graph and weights exist.
Result<PackedJob> pack_job(const JobOptions& options, Files& files);

// The job of a run's folder, with its newest checkpoint that is whole (as resume/checkpoints/...)
// and its metrics, from which the cluster goes on: see daemon/master/resumed_job.h. Notes name the
// checkpoints that were passed over. failed_precondition if there is none.
Result<PackedJob> pack_run(const std::string& folder, const JobOverrides& overrides, Files& files);

// Copies the job file and the graph of a job on the cluster to `folder`. failed_precondition if it
// has left no checkpoint.
Status fetch_job(ClusterClient& client, const std::string& id, const std::string& folder);
// What was fetched so, to go on from the checkpoint that the job has on the cluster.
Result<PackedJob> pack_fetched(const std::string& id, const std::string& folder,
                               const JobOverrides& overrides, Files& files);

}  // namespace leat
