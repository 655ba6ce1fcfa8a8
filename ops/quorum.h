// Ops of steps that are closed by the first N of M replicas: see ReplicaPool.
//
// A replica's step, in a run of its own: NextTicket gives it a step and a chunk of the rows; on
// each server AwaitStep holds its reads back until the variables are those of that step; Stage
// leaves its gradients there; Arrive, after all of them, says so.
//
// The steps of the job, a run on the servers: AwaitQuorum says which N replicas count; SumStaged
// adds up what these left; AdvanceStep, after all that the step writes, lets the reads of the next
// one begin. So a replica that read some variables before and some after an update is one whose
// step was closed without it.
#pragma once

#include <cstdint>

#include "ops/kernel.h"

namespace leat {

class Catalogue;

// The context of a run that is allowed its steps bit by bit: AwaitQuorum asks how many.
struct LimitedStepContext : StepContext {
  uint64_t limit = 0;  // steps below are allowed; more may be by now

 protected:
  ~LimitedStepContext() = default;
};

// leat.ReplicaPool NextTicket Arrive AwaitQuorum, StepClock AwaitStep AdvanceStep, Staging Stage
// SumStaged.
void register_quorum_ops(Catalogue& catalogue);

}  // namespace leat
