// Evaluates a job's model on its validation data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/training/job_plans.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"

namespace leat {

// Threads: one.
class Evaluator {
 public:
  // Both outlive it. REQUIRES: the job has validation data.
  Evaluator(const TrainingParts& parts, JobPlans& plans) : parts_(parts), plans_(plans) {}

  // Compiles the evaluation. It also opens the data on all hosts, unless an earlier attempt at the
  // job has done so: an error in the data then ends the job before it trains. Blocks.
  Status prepare();
  // Evaluates the whole data. Nothing if `yields` became true meanwhile: the training that
  // continues begins the evaluation again. Blocks.
  Result<std::optional<Evaluation>> evaluate(const std::function<bool()>& yields);

 private:
  int64_t rows_per_step() const;

  const TrainingParts& parts_;
  JobPlans& plans_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace leat
