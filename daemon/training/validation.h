// The evaluations of a training: which sets of data they cover, when they are due, and the names of
// their numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/training/evaluator.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"

namespace leat {

// TrainingLoop owns it, and so does RunEvaluator. Each set of data is planned once, and every
// evaluation uses that plan. Threads: one.
class Validation {
 public:
  // Both outlive it.
  Validation(const TrainingParts& parts, JobPlans& plans);

  // The job has validation data.
  bool exists() const { return !evaluators_.empty(); }
  // Compiles all evaluations: see Evaluator::prepare(). Blocks.
  Status prepare();
  // The plans of all evaluations, which are compiled, but not run.
  Result<std::vector<std::shared_ptr<const Plan>>> plans();

  // The first step after `done` that is to be followed by an evaluation although it may end no
  // epoch; more than any step if there is none.
  int64_t next(int64_t done) const;
  // An evaluation is to follow step `done`, whether or not it ends an epoch.
  bool is_due(int64_t done) const { return done > 0 && next(done - 1) == done; }

  // Evaluates all sets with the variables that the hosts have. Nothing if `yields` became true
  // meanwhile. REQUIRES, and errors: as Evaluator::evaluate().
  Result<std::optional<ValidationResult>> evaluate(int64_t step,
                                                   const std::function<bool()>& yields);

 private:
  const TrainingParts& parts_;
  std::vector<Evaluator> evaluators_;
};

}  // namespace leat
