// Draws the use of a worker over the last half hour, for the page of the cluster.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "daemon/status/status_source.h"

namespace leat {

// The HTML of a small picture with two lines, from nothing at its lower edge to all at its upper
// one: the share of the worker's threads that computed, and that of its memory. "" for a worker
// that is lost, and before there are two points.
std::string usage_picture(const WorkerView& worker, int64_t now_ms);

}  // namespace leat
