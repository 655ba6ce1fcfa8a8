// Finds the cause of a loss that is NaN or infinite, and the newest checkpoint that is still good.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/training/job_plans.h"
#include "daemon/training/job_variables.h"
#include "daemon/training/training_parts.h"
#include "daemon/training/training_steps.h"

namespace leat {

// Steps are deterministic unless workers step by themselves: the search goes back to the last
// checkpoint, or to the start, repeats the steps up to the bad one, and computes that one with a
// graph that sums every value. The message names the first op of a chain of values that are not
// finite and end in the loss. TrainingLoop makes one when a loss is NaN or infinite and the job's
// on_nan is fail; the job ends afterwards.
//
// Threads: one.
class NanSearch {
 public:
  // All outlive it. `checkpoints`: their folder. The search replaces the runs in `steps` by runs
  // that repeat the steps since the last checkpoint.
  NanSearch(const TrainingParts& parts, JobPlans& plans, JobVariables& variables,
            std::string checkpoints, std::unique_ptr<TrainingSteps>& steps);

  // The failure of `step` (counted from 0), whose loss is not finite: failed_precondition with the
  // first op that computed a value that is not finite, the last good checkpoint, and the remedy. A
  // checkpoint whose variables are not finite is removed if another one is left. REQUIRES: no
  // checkpoint is being written. Blocks, for 2 minutes at most.
  Status failure(int64_t step, double loss);

 private:
  // Returns a clause for the message.
  std::string drop_bad_checkpoint(int64_t step);
  // Returns the name of the op. An error if the steps cannot be repeated in time.
  Result<std::string> find(int64_t step);
  // Returns when all hosts have the variables from before `step`.
  Status go_back(int64_t step);

  const TrainingParts& parts_;
  JobPlans& plans_;
  JobVariables& variables_;
  const std::string checkpoints_;
  std::unique_ptr<TrainingSteps>& steps_;
};

}  // namespace leat
