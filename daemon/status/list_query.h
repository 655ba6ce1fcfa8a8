// The part of a list that a request asks for:
//
//   /api/v1/jobs?state=RUNNING,QUEUED&name=mnist&after=17&limit=100
//
// `state`: one of these; `name`: has this text in it; `after` and `limit`: a page of the rest.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"
#include "devices/base/status.h"

namespace leat {

// Returns the number that all of `text` is. invalid_argument, with the subject, if it is none.
Result<uint64_t> whole_number_of(std::string_view subject, std::string_view text);
// Returns a number of the query, or `otherwise` if it is absent. invalid_argument if it is none.
Result<uint64_t> query_number(const HttpRequest& request, std::string_view name,
                              uint64_t otherwise);

// A part of a list, and where the next part begins.
template <typename T>
struct ListPage {
  std::vector<T> items;
  std::optional<std::string> next;  // the `after` of the next page; nothing at the end
};

// Returns the jobs that the query asks for, in the order of their submission; `after` is a job's
// number. invalid_argument for a key that is unknown, or a value that is not valid.
Result<ListPage<JobView>> page_of_jobs(const HttpRequest& request, std::vector<JobView> jobs);
// The same of workers, by name; `after` is a worker's name.
Result<ListPage<NodeView>> page_of_nodes(const HttpRequest& request, std::vector<NodeView> nodes);

}  // namespace leat
