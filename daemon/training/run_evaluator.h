// Evaluates the trained model of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/hosts/host_group.h"
#include "daemon/spec/job.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/train_options.h"
#include "daemon/training/training_input.h"
#include "daemon/training/training_parts.h"
#include "daemon/training/validation.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The job of a run as one host computes it, with as many shards as its evaluation had in the
// training, so that the sums are made in the same order and give the same bits.
Job on_one_host(Job job);

// invalid_argument for a job that cannot be evaluated: a program, which has its own training, and
// one without validation data.
Status check_evaluates(const Job& job);

// The model and the validation data of a job, planned once for any number of weights.
// Threads: one. All calls block.
class RunEvaluator {
 public:
  // Reads the model and the headers of the validation data, and compiles the evaluation. The
  // training data are not looked at. `every_float`: see RunWeights. `threads`: 0 for all usable
  // cores. Errors are those of read_input(); invalid_argument for a job without validation data.
  // `catalogue` and `files` outlive the result.
  static Result<std::unique_ptr<RunEvaluator>> create(const Catalogue& catalogue, Files& files,
                                                      Job job, bool every_float, int threads);
  // The same on one host that may be elsewhere.
  static Result<std::unique_ptr<RunEvaluator>> create(const Catalogue& catalogue, Files& files,
                                                      Job job, bool every_float,
                                                      std::unique_ptr<HostGroup> hosts);

  // Evaluates all sets with these weights, after `step` steps of the job; with their averages if
  // they come with them, as those of a checkpoint do. invalid_argument if they
  // lack a variable of the model; cancelled if `stop` became true.
  Result<ValidationResult> evaluate(Variables weights, int64_t step,
                                    const std::function<bool()>& stop);
  // The rows of the first set that an evaluation covers.
  int64_t rows() const;
  // The files with data of the model's graph: see GraphFiles.
  const std::vector<std::string>& graph_data() const { return input_->model.data; }

 private:
  RunEvaluator(const Catalogue& catalogue, Files& files, Job job, std::unique_ptr<HostGroup> hosts,
               std::unique_ptr<TrainingInput> input);

  const double ema_;  // the job's; job_ itself has none, so that its graphs read the weights
  const Job job_;
  const TrainOptions options_;
  const std::unique_ptr<HostGroup> hosts_;
  const std::unique_ptr<TrainingInput> input_;
  const TrainingParts parts_;
  JobPlans plans_;
  Validation validation_;
};

}  // namespace leat
