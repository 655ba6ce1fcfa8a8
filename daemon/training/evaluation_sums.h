// The sums of an evaluation over its steps.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/hosts/plan_run.h"
#include "daemon/training/train_observer.h"
#include "scheduler/graph/train_graph.h"
#include "scheduler/plan/plan.h"

namespace leat {

// The fetches of make_eval_graph() are sums over the rows of a step. This class adds them up in f64
// in the order of the steps, so the result depends neither on timing nor on the size of steps, and
// finishes each metric once. It keeps the rows of metrics that gather. Threads: one.
class EvaluationSums {
 public:
  // `spec`: of the evaluation's graph. It outlives the sums.
  explicit EvaluationSums(const TrainSpec& spec);

  // invalid_argument if the rows that metrics gather in so many steps of the plan are too many for
  // the memory of this process.
  static Status check_size(const TrainSpec& spec, const Plan& plan, int64_t steps);

  // Adds the fetches of a step. REQUIRES: as PlanRun::fetched().
  void add(PlanRun& run, uint64_t step);
  Evaluation finish() const;

 private:
  const TrainSpec& spec_;
  const bool weighs_labels_;  // there is a fetch of their number
  // Of a term of the loss: its sum, and the labels that count.
  struct Term {
    double loss = 0, counted = 0;
  };
  std::vector<Term> terms_;
  double correct_ = 0, labels_ = 0;
  std::vector<std::vector<double>> sums_;  // of each metric; or its rows, if it gathers
  std::vector<size_t> widths_;             // of those rows
};

}  // namespace leat
