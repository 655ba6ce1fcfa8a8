// The page of jobs and nodes, for people: one HTML document that needs nothing beside itself. It is
// complete without scripts (and then loads itself anew); with them it asks for itself each second
// and replaces the rows that changed.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// With the policy that lets a browser run this page's script and style, by their hashes, and
// nothing else. `ready`: as of StatusSource.
HttpResponse status_page(const ClusterView& cluster, std::span<const JobView> jobs,
                         std::span<const NodeView> nodes, const Status& ready);

// For text between tags and for values in quotes.
std::string html_escaped(std::string_view text);

// "4 s", "3 min 12 s", "2 h 05 min", "3 d 4 h"; "" if it is not known.
std::string short_duration(double seconds);

}  // namespace leat
