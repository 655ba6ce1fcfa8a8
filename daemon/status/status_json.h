// The JSON of cluster, nodes, jobs and logs, for the status endpoint and for the CLI's --json. Each
// function returns one object on one line, with its newline; docs/status.md lists the fields. The
// format has a version, within which fields are only added. Times are ISO 8601 in UTC; an unknown
// number is null; bytes that are not valid UTF-8 become U+FFFD.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/status/status_source.h"

namespace leat {

inline constexpr std::string_view kApiVersion = "leat/v1";

std::string cluster_json(const ClusterView& cluster);
// The version of a list and the `after` of its next page; a value that is not known is left out.
struct ListEnd {
  uint64_t version = 0;
  std::optional<std::string> next = {};
};
std::string jobs_json(std::span<const JobView> jobs, const ListEnd& end = {});
std::string job_json(const JobView& job);
// A job without its lists, as jobs_json() has it.
std::string job_summary_json(const JobView& job);
std::string nodes_json(std::span<const NodeView> nodes, const ListEnd& end = {});
std::string node_json(const NodeView& node);
// `job` is the id, in both.
std::string log_json(std::string_view job, const LogPage& page);
// A line as log_json() has it.
std::string log_line_json(const LogLine& line);
std::string curves_json(std::string_view job, const CurvesView& curves);
std::string live_json();
// `status` is the reason why the daemon is not ready; ok if it is.
std::string ready_json(const Status& status);
std::string error_json(std::string_view code, std::string_view message);

}  // namespace leat
