#include "daemon/training/validation.h"

#include <limits>
#include <utility>

#include "daemon/training/train_specs.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The sets that the job names, the first one under the name of its numbers.
std::vector<ValidationSet> validation_sets(const TrainingParts& parts) {
  const TrainingInput& input = parts.input;
  std::vector<ValidationSet> sets;
  for (const Job::Files* files : validation_files(parts.job)) {
    if (sets.empty()) {
      sets.push_back({"val", files, &input.validation});
      continue;
    }
    const size_t i = sets.size() - 1;
    sets.push_back({parts.job.data.more_validation[i].first, files, &input.more_validation[i]});
  }
  return sets;
}

// Names the numbers of a set: "val_loss", "val_accuracy", "val_f1".
void add_numbers(const std::string& set, const Evaluation& evaluation, ValidationResult& result) {
  result.numbers.emplace_back(set + "_loss", evaluation.loss);
  if (evaluation.accuracy) result.numbers.emplace_back(set + "_accuracy", *evaluation.accuracy);
  for (const NamedNumber& each : evaluation.metrics)
    result.numbers.emplace_back(cat(set, "_", each.name), each.value);
}

}  // namespace

Validation::Validation(const TrainingParts& parts, JobPlans& plans) : parts_(parts) {
  for (ValidationSet& set : validation_sets(parts))
    evaluators_.emplace_back(parts, plans, std::move(set));
}

Status Validation::prepare() {
  for (Evaluator& evaluator : evaluators_) LEAT_RETURN_IF_ERROR(evaluator.prepare());
  return {};
}

Result<std::vector<std::shared_ptr<const Plan>>> Validation::plans() {
  std::vector<std::shared_ptr<const Plan>> all;
  for (Evaluator& evaluator : evaluators_) {
    LEAT_ASSIGN_OR_RETURN(auto plan, evaluator.plan());
    all.push_back(std::move(plan));
  }
  return all;
}

int64_t Validation::next(int64_t done) const {
  const int64_t every = exists() ? parts_.job.validation.every_steps : 0;
  if (every == 0) return std::numeric_limits<int64_t>::max();
  return (done / every + 1) * every;
}

Result<std::optional<ValidationResult>> Validation::evaluate(int64_t step,
                                                             const std::function<bool()>& yields) {
  ValidationResult result;
  result.step = step;
  for (Evaluator& evaluator : evaluators_) {
    LEAT_ASSIGN_OR_RETURN(const auto evaluation, evaluator.evaluate(yields));
    if (!evaluation) return std::optional<ValidationResult>();
    if (result.numbers.empty()) result.first = *evaluation;
    add_numbers(evaluator.name(), *evaluation, result);
  }
  return std::optional(std::move(result));
}

}  // namespace leat
