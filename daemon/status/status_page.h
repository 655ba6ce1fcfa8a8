// The page of jobs and nodes, for people.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// The jobs that the page lists.
struct JobFilter {
  std::string show;   // "running", "waiting" or "ended"; anything else: all
  std::string name;   // the id has this text in it
  uint64_t page = 1;  // from 1; 200 jobs each, and the last one for any number behind it
};

// `ready` is the status from StatusSource::ready().
HttpResponse status_page(const ClusterView& cluster, std::span<const JobView> jobs,
                         std::span<const NodeView> nodes, const Status& ready,
                         const JobFilter& filter = {});

}  // namespace leat
