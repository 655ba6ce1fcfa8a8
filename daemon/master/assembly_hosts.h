// Functions that reach the runners of one assembly of a job: as the hosts of its plans, for the
// model of their processors, and to arm their faults.
//
// Threads: any. The threads of jobs call these functions, which may block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/master/master_parts.h"
#include "daemon/spec/chaos_fault.h"

namespace leat {

// Returns the runners of the assembly. Fails with unavailable, naming the worker, if a runner is
// no longer there.
Result<std::unique_ptr<HostGroup>> make_assembly_hosts(MasterParts& parts, const RunJob& action);

// Returns a function that notes how far the devices of the assembly are, also of runners that are
// lost by then. `parts` outlives it.
std::function<void()> noter_of(MasterParts& parts, const RunJob& action);

// Returns the model of the workers' processors, on which the weights depend; "A and B" if the
// workers differ.
std::string processors_of(const MasterParts& parts, const RunJob& action);

// Sends each runner of the assembly its faults. Returns the first failure, but only after it has
// sent the faults to all other runners.
Status arm_faults(MasterParts& parts, const RunJob& action, const std::vector<ArmedFault>& faults);

}  // namespace leat
