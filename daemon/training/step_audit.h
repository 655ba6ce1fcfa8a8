// Audits the steps of a training: has other hosts compute a step once more, and compares the bits
// of all that hosts computed and hold.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/hosts/host_group.h"
#include "daemon/hosts/plan_run.h"
#include "daemon/training/audit_verdict.h"
#include "daemon/training/job_plans.h"
#include "daemon/training/train_observer.h"
#include "daemon/training/training_parts.h"

namespace leat {

// AuditedSteps owns it. An audited step is computed by the hosts that compute it anyway, in a plan
// that also fetches digests, and before that by other hosts of the same group, which write nothing:
// host h takes what host h - 1 does in training, and with three hosts or more a third computation
// makes the verdict. Plans are compiled, and runs made, for the first audit.
//
// All calls block, and end at the latest when a host fails. An error `unavailable` reports that
// bits differ, or that a host was lost. After a difference no host's memory counts as a step of the
// job, the observer is told, and the training goes back to its last checkpoint. Threads: one.
class StepAudit {
 public:
  // All outlive it. REQUIRES: the plans are compiled, and there are two hosts or more.
  StepAudit(const TrainingParts& parts, JobPlans& plans, TrainObserver& observer)
      : parts_(parts), plans_(plans), observer_(observer) {}

  // The first step from `step` on (counted from 0) that is to be audited, or that of the job's end.
  // It follows from the job's seed.
  int64_t next(int64_t step) const;

  // Compares the variables of all hosts after `done` steps. REQUIRES: no step runs.
  Status compare_variables(int64_t done);
  // The same, and has other hosts compute `step`. REQUIRES: all hosts have done the steps below it.
  Status begin(int64_t step);
  // The plan in which the step is to be done then, as a training plan.
  const std::shared_ptr<const Plan>& training() const { return training_.plan; }
  // Compares what the step's run fetched with what the others computed, and the variables after it.
  // REQUIRES: begin(step) was called, and `run` has done it; all hosts stand still.
  Status end(int64_t step, PlanRun& run);

  // "audited 12 steps: 48 pairs of a step and a shard, 0 differences".
  std::string summary() const;

 private:
  // A plan, and what its digests are of.
  struct Audit {
    std::shared_ptr<const Plan> plan;
    uint32_t fetch = 0;
    std::vector<AuditedValue> values;
  };

  int64_t pairs() const { return steps_ * parts_.job.shards; }
  size_t hosts() const { return static_cast<size_t>(parts_.workers); }
  Status compile();
  Result<Audit> compile(Result<AuditGraph> graph, HostGroup& hosts, const std::string& what,
                        int64_t shards);
  Status compute(size_t rotation, int64_t step);
  Status differs(const AuditFinding& finding, const std::string& when,
                 const std::vector<AuditedValue>& values);

  const TrainingParts& parts_;
  JobPlans& plans_;
  TrainObserver& observer_;
  Audit training_, variables_;
  std::vector<Audit> peers_;  // by rotation - 1
  // Compares variables, after each step that it is asked for.
  std::unique_ptr<PlanRun> variables_run_;
  uint64_t compared_ = 0;         // turns of variables_run_
  std::vector<AuditedRun> runs_;  // of the step that was begun
  int64_t steps_ = 0;             // audited
  int64_t differences_ = 0;
};

}  // namespace leat
