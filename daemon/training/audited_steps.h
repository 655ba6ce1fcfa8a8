// The steps of a training of which some are audited: Job::audit.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/training/job_plans.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"
#include "daemon/training/training_steps.h"

namespace leat {

// Starts the runs of the job's training plans after `done` steps, as start_steps() does. If the job
// is audited and has two hosts or more, and TrainOptions::no_audit is empty, the hosts stop before
// each audited step, and do it by itself, in a run of its own; a wait for it returns when its bits
// have been compared, with the difference if there is one. Wherever the steps are drained the
// hosts' variables are compared, too: so a checkpoint has none that differ between hosts. The hosts
// copy no checkpoint in passing then. All outlive the result. Threads: one.
Result<std::unique_ptr<TrainingSteps>> start_audited_steps(const TrainingParts& parts,
                                                           JobPlans& plans, TrainObserver& observer,
                                                           int64_t done);

}  // namespace leat
