// What an assembly of a job runs on: the runners of its workers, as hosts of its plans.
//
// Threads: any; called on the threads of jobs, which may wait.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/master/master_parts.h"
#include "daemon/spec/chaos_fault.h"

namespace leat {

// The runners of the assembly. unavailable, naming the worker, if one of them is gone.
Result<std::unique_ptr<HostGroup>> make_assembly_hosts(MasterParts& parts, const RunJob& action);

// The model of the workers' processors, which the weights depend on; "A and B" if they differ.
std::string processors_of(const MasterParts& parts, const RunJob& action);

// Sends each runner of the assembly its faults. The first failure is returned, after all runners
// that are there have theirs.
Status arm_faults(MasterParts& parts, const RunJob& action, const std::vector<ArmedFault>& faults);

}  // namespace leat
