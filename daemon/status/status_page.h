// The page of jobs and nodes, for people.
//
// Threads: pure functions.
#pragma once

#include <span>

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// `ready` is the status from StatusSource::ready().
HttpResponse status_page(const ClusterView& cluster, std::span<const JobView> jobs,
                         std::span<const NodeView> nodes, const Status& ready);

}  // namespace leat
