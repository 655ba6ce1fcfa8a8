// The gradients of single steps of a run, computed once more in this process.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/hosts/host_group.h"
#include "daemon/spec/job.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/job_variables.h"
#include "daemon/training/train_options.h"
#include "daemon/training/training_input.h"
#include "daemon/training/training_parts.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// A training computes the step that follows a checkpoint from its weights, and from the rows that
// the step's number decides. This class computes the same step, on as many shards, for any weights
// of the job. The gradients are those of the training to the bit, if it does not depend on timing
// and ran on CPUs of this kind. The job's own training notices nothing.
// Threads: one. All calls block.
class StepGradients {
 public:
  // Reads the model and the headers of the training data, and compiles the step. `every_float`: see
  // RunWeights. `threads`: 0 for all usable cores. Errors are those of read_input();
  // invalid_argument for a program, which has its own training. `catalogue` and `files` outlive the
  // result.
  static Result<std::unique_ptr<StepGradients>> create(const Catalogue& catalogue, Files& files,
                                                       Job job, bool every_float, int threads);

  // The gradients of the mean loss over the rows of the step after `step` steps, by the names of
  // the variables that the job trains, each of its variable's shape; before clipping, decay and
  // the step of `sam`. `values`: those of a checkpoint; invalid_argument if a variable of the model
  // is missing or of another type.
  Result<Variables> compute(const Variables& values, int64_t step);

 private:
  StepGradients(const Catalogue& catalogue, Files& files, Job job, std::unique_ptr<HostGroup> hosts,
                std::unique_ptr<TrainingInput> input);

  const Job job_;
  const TrainOptions options_;
  const std::unique_ptr<HostGroup> hosts_;
  const std::unique_ptr<TrainingInput> input_;
  const TrainingParts parts_;
  JobPlans plans_;
  JobVariables variables_;
};

}  // namespace leat
