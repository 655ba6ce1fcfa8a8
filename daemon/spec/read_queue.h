// Reads and prints the keys of a job file that the queue of a cluster heeds (queue_terms.h).
//
// Threads: one.
#pragma once

#include <string>

#include "daemon/base/yaml_reader.h"
#include "daemon/spec/queue_terms.h"

namespace leat {

// `priority`, `max_run_time` and `preemptible`, of the top of the file.
void read_queue(YamlMap& top, QueueTerms& terms);
// `cpu` and `memory` of the map `resources_per_worker`.
void read_share(YamlMap& map, QueueTerms& terms);

// The lines of the keys that do not have their default.
std::string print_queue(const QueueTerms& terms);
// The line of `resources_per_worker`; "" if no key of it differs from its default.
std::string print_resources(int64_t gpus, const QueueTerms& terms);

}  // namespace leat
