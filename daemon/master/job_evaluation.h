// A job that evaluates the checkpoints of another job of the cluster beside its training, as
// TensorFlow's train_and_evaluate does: on a worker of its own, and it costs the training nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "daemon/hosts/host_group.h"
#include "daemon/jobs/progress.h"
#include "daemon/jobs/views.h"
#include "daemon/spec/job.h"
#include "daemon/training/evaluation_rows.h"
#include "daemon/training/run_evaluator.h"
#include "daemon/training/run_weights.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/graph/op.h"

namespace leat {

// Each checkpoint of the followed job that has no row yet in evaluations.jsonl of the own folder
// gets one, the older first; then each new one as it appears, until that job has ended. One that
// the training removes meanwhile is passed over, and so is a damaged one until the training has
// replaced it. A later assembly goes on behind the rows that are there. Threads: one, but for
// Calls.
class JobEvaluation {
 public:
  // The services of the master, which are called on the thread of run().
  struct Calls {
    std::function<Result<JobView>()> followed;  // the job whose checkpoints it evaluates
    std::function<bool()> stop;                 // it is to end, between two checkpoints or in one
    std::function<void(std::chrono::milliseconds)> rest;  // sleeps, less if it is to end
    std::function<void(const ProgressReport&)> report;
    std::function<void(std::string)> line;  // of the job's log
    std::function<void(std::string)> wait;  // for what it waits; "" when it goes on
  };
  struct Folders {
    std::string own;
    std::string followed;
  };

  // All arguments but `hosts` and `folders` outlive it.
  JobEvaluation(const Catalogue& catalogue, Files& files, const Job& job, Folders folders,
                std::unique_ptr<HostGroup> hosts, Calls calls);

  // Evaluates until the followed job has ended and each of its checkpoints has a row. cancelled if
  // it was to stop; failed_precondition if the cluster has that job no more; else the errors of
  // RunEvaluator, such as unavailable for a lost worker, and of writing the rows.
  Status run();
  // The step of the last row.
  int64_t last_step() const { return rows_.last_step(); }

 private:
  void begin();
  Status take_new();
  Status take(const std::string& path, int64_t step);
  Result<ValidationResult> evaluate(RunWeights weights);
  Status write(const std::function<Status()>& attempt);
  void report();
  void wait(const std::string& for_what);

  const Catalogue& catalogue_;
  Files& files_;
  const Job& job_;
  const Folders folders_;
  const Calls calls_;
  std::unique_ptr<HostGroup> hosts_;         // until the evaluator has them
  std::unique_ptr<RunEvaluator> evaluator_;  // from the first checkpoint on
  EvaluationRows rows_;
  std::set<int64_t> damaged_;  // the steps of checkpoints that were passed over
  ProgressReport progress_, reported_;
  std::string waits_for_;  // as Calls::wait was told
};

}  // namespace leat
