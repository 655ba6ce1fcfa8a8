// The metrics of /metrics: those of a cluster, and those of any process.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/status/status_source.h"

namespace leat {

// Returns the metrics of a cluster. Only jobs that have not ended have metrics, so that the number
// of series stays bounded. Threads: a pure function.
std::vector<Metric> cluster_metrics(const ClusterView& cluster, std::span<const JobView> jobs,
                                    std::span<const NodeView> nodes, const Status& ready);

// Adds a sample of `usage` for each kind of memory that runners have reserved: with on="host" in
// the machine's memory and, if they have reserved any there, with on="accelerators" in that of its
// other devices. Threads: a pure function.
void add_reserved(const WorkerUsage& usage, std::vector<std::pair<std::string, std::string>> labels,
                  Metric& out);

// Returns a metric without samples for each of kLinkCounterFields, "PREFIX_bytes_sent_total", and
// adds a sample of `traffic` to each of these. Threads: pure functions.
std::vector<Metric> traffic_metrics(const std::string& prefix);
void add_traffic(const LinkCounters& traffic,
                 const std::vector<std::pair<std::string, std::string>>& labels,
                 std::span<Metric> out);

// Returns the memory, descriptors and processor time of this process. Leaves out values that the
// system does not report. Threads: any.
std::vector<Metric> process_metrics();

}  // namespace leat
