// A job file and what it names, made ready to be sent to a master.
#pragma once

#include <string>
#include <vector>

#include "daemon/cli/commands.h"
#include "daemon/client/cluster_client.h"
#include "daemon/job/job.h"
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

}  // namespace leat
