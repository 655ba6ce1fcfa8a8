// What /metrics says of a cluster, and of any process.
#pragma once

#include <span>
#include <vector>

#include "daemon/status/status_source.h"

namespace leat {

// Per job only as long as it has not ended, so that the number of series stays bounded.
// Threads: a pure function.
std::vector<Metric> cluster_metrics(const ClusterView& cluster, std::span<const JobView> jobs,
                                    std::span<const NodeView> nodes, const Status& ready);

// Of this process, as the system tells: memory, descriptors, processor time. What it does not tell
// is left out. Threads: any.
std::vector<Metric> process_metrics();

}  // namespace leat
