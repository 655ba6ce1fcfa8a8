// The findings of `leat doctor`, which other commands gather, too.
#pragma once

#include <string>
#include <vector>

#include "daemon/cli/cluster_commands.h"
#include "daemon/doctor/finding.h"

namespace leat {

// The findings about one thing: the machine, its GPUs, the runners of a worker, the cluster, or the
// job.
struct FindingGroup {
  std::string name;
  Findings findings;
};

// Examines this machine, the cluster that the options name, and the job unless its file is "". May
// take 25 s, if a driver or the master does not answer. REQUIRES: the process has one thread, since
// another one looks for the GPUs in a process of its own.
std::vector<FindingGroup> examine(const ClusterOptions& cluster, const JobOptions& job);

// The findings for people, and as one JSON object on each line.
std::string findings_text(const std::vector<FindingGroup>& groups);
std::string findings_json(const std::vector<FindingGroup>& groups);

}  // namespace leat
