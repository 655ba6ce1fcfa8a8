// Changes a bit in the memory of a job, as a fault of the hardware does that nothing reports.
#pragma once

#include <span>

#include "daemon/spec/chaos_fault.h"
#include "ops/state/resources.h"

namespace leat {

// Injects a fault whose action is flip. weight: a bit in the middle of the largest variable that
// `tables` hold and an optimizer updates, at once; nothing if there is none. gradient: a bit in the
// middle of the next gradient that this process audits, when it has it. Threads: any.
// REQUIRES: no step of the job runs.
void flip_bit(const ChaosFault& fault, std::span<JobResources* const> tables);

}  // namespace leat
