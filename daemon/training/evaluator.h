// Evaluates a job's model on its validation data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/training/job_plans.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"

namespace leat {

// The rows of an evaluation step over all shards, for a model that takes any number: 256, or fewer
// if the values of so many rows would have more than 4 GiB, but no fewer than the training's batch,
// for which there is memory. `inference` is validated, with a symbol as its batch.
int64_t evaluation_rows(const Graph& inference, int64_t batch);

// One set of a job's validation data. The job and the input of the training outlive it.
struct ValidationSet {
  std::string name;  // its numbers are "NAME_loss" ...; "val" for the first one
  const Job::Files* files = nullptr;
  const FoundDataset* found = nullptr;
};

// Validation owns it. The evaluation runs the inference graph once over the rows of a set, or the
// first validation.rows of them, in the order of the files, with the variables that the training
// has on the hosts at that moment. The loss of all rows is summed in the order of the steps in f64,
// and divided once at the end. Threads: one.
class Evaluator {
 public:
  // Both outlive it.
  Evaluator(const TrainingParts& parts, JobPlans& plans, ValidationSet set)
      : parts_(parts), plans_(plans), set_(std::move(set)) {}

  const std::string& name() const { return set_.name; }

  // Compiles the evaluation. It also opens the data on all hosts, unless an earlier attempt at the
  // job has done so: an error in the data then ends the job before it trains. Blocks.
  Status prepare();
  // The compilation alone: returns the plan.
  Result<std::shared_ptr<const Plan>> plan();
  // Evaluates the rows. Nothing if `yields` became true meanwhile: the training that
  // continues begins the evaluation again. Blocks.
  // REQUIRES: prepare() returned ok, and no training step is in flight. `yields` is asked at least
  // every 100 ms. Errors are those of the run, such as unavailable for a lost host.
  Result<std::optional<Evaluation>> evaluate(const std::function<bool()>& yields);

 private:
  // The rows of a step over all shards: evaluation_rows(), or the fixed batch of the model on each
  // shard. The last step may have fewer.
  int64_t most_rows() const;
  // The plan for steps of rows_per_step_ rows.
  Result<std::shared_ptr<const Plan>> compile();
  // Halves rows_per_step_; false if each shard has one row already, or as many as the model says.
  bool halve_rows();
  // Makes plan_, of fewer rows if the values of a step do not fit into the hosts' memory alone.
  Status compile_to_fit();
  // Opens a run of plan_, which becomes one of fewer rows if they do not fit beside the training.
  Result<std::unique_ptr<PlanRun>> open();
  // True if the model computes the loss as a mean over the rows of a step, so that rows behind the
  // last whole step are left out of the evaluation.
  bool leaves_out_rows() const;
  int64_t count() const;  // of the rows that it covers
  int64_t steps() const;  // of rows_per_step_ rows

  const TrainingParts& parts_;
  JobPlans& plans_;
  const ValidationSet set_;
  std::shared_ptr<const Plan> plan_;
  int64_t rows_per_step_ = 0;  // most_rows(), or fewer if the hosts have no memory for so many
};

}  // namespace leat
