// The JSON of cluster, nodes, jobs and logs: of the status endpoint and of the CLI's --json. Each
// text is one object on one line, with its newline; docs/status.md has the fields. It is versioned,
// and fields are only ever added. Times are ISO 8601 in UTC; a number that is not known is null;
// bytes that are no UTF-8 become U+FFFD.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/status/status_source.h"

namespace leat {

inline constexpr std::string_view kApiVersion = "leat/v1";

std::string cluster_json(const ClusterView& cluster);
std::string jobs_json(std::span<const JobView> jobs);
std::string job_json(const JobView& job);
std::string nodes_json(std::span<const NodeView> nodes);
// `job` is the id.
std::string log_json(std::string_view job, const LogPage& page);
std::string live_json();
// `status`: why it is not ready; ok: it is.
std::string ready_json(const Status& status);
std::string error_json(std::string_view code, std::string_view message);

// "2026-01-31T12:00:00.123Z"
std::string iso_time(int64_t unix_ms);

}  // namespace leat
