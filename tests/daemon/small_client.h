// Requests for SmallJob's jobs, as a client of a master submits them.
#pragma once

#include <memory>
#include <string>

#include "daemon/client/cluster_client.h"
#include "tests/daemon/leatd_process.h"
#include "tests/daemon/training_testing.h"

namespace leat {

std::unique_ptr<ClusterClient> client_of(LeatdProcess& master);

// Attaches the graph as a file. The workers know the data set as "data".
JobRequest request_of(const SmallJob& small, Job job);

}  // namespace leat
