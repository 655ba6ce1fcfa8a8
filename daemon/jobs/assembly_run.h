// The run of a job on its assembly: whether it runs, its reports, the workers that hold its newest
// state, and the reasons to stop it at a fence.
//
// A run is asked to stop at a fence when one of its workers drains, when more workers are free than
// an elastic job has, and when a worker can replace one that the run has lost. A job that may not
// restart is left alone. A run can do without some of its workers (backup workers,
// ProgressReport::spared_from): the loss of such a worker is no failure, unless the run fails.
//
// Its decisions become actions of the context.
//
// Threads: one.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/jobs/assembly.h"
#include "daemon/jobs/job_demand.h"
#include "daemon/jobs/table_context.h"

namespace leat {

// The reason to stop a run at a fence.
struct RunYield {
  std::string cause;
  std::string culprit;  // a worker that drains; "" if none does
  bool saves = false;   // into a checkpoint
};

class AssemblyRun {
 public:
  struct Missing {
    std::string worker;
    std::string text;  // the cause of its loss, for people
  };

  // All outlive this object.
  AssemblyRun(TableContext& context, const StoredJob& job, const Assembly& assembly,
              const JobDemand& demand)
      : context_(context), job_(job), assembly_(assembly), demand_(demand) {}

  // Another assembly has begun; these workers hold nothing of the job in memory.
  void renew(const std::vector<WorkerRef>& joining);
  void begin();
  // Does nothing if there is no run.
  void end(const std::string& reason);
  void made_progress(const ProgressReport& report);
  void waits(std::string for_what) { waits_for_ = std::move(for_what); }
  // All workers of the assembly hold the job's newest state. `saved`: a checkpoint has it, too.
  void hold(bool saved);
  // No worker holds the job's state any more.
  void drop_memory() { holders_.clear(); }
  // The run has stopped at a fence. Returns the reason.
  RunYield yielded(bool saved);

  // True if the worker drains, and the job's newest state is not lost with it.
  bool releases(const WorkerRef& worker) const;
  // If workers of the assembly drain, asks the run to stop at a fence. If there is no run, returns
  // the reason to end the assembly.
  std::optional<RunYield> leave_drained();
  // True if the run may continue without that worker. If it cannot, it reports an error itself.
  bool goes_on_without(const WorkerRef& worker, std::string text);
  // Asks the run to stop at a fence so that more workers can join, `free` at most. Returns how
  // many.
  size_t grow(size_t free);

  bool runs() const { return runs_; }
  bool stepped() const { return stepped_; }
  // "waits for room: ...", or "" if the run does not wait.
  const std::string& waits_for() const { return waits_for_; }
  // The workers that the run continues without.
  const std::vector<Missing>& missing() const { return missing_; }
  // True if another assembly can continue with everything that the job holds.
  bool may_move() const { return job_.max_restarts > 0; }
  ProgressMeter& progress() { return progress_; }
  const ProgressMeter& progress() const { return progress_; }

 private:
  bool may_grow() const;
  // Asks once; and again if the state must be saved now, and the first request did not say so.
  void ask_to_yield(RunYield why);

  TableContext& context_;
  const StoredJob& job_;
  const Assembly& assembly_;
  const JobDemand& demand_;
  ProgressMeter progress_;
  bool runs_ = false;
  bool stepped_ = false;    // the run has done a step in this assembly
  Clock::Steady ran_at_{};  // when the run began
  std::string waits_for_;
  uint32_t spared_from_ = 0;  // as its last report has it
  std::vector<Missing> missing_;
  std::optional<RunYield> yield_;
  std::set<std::string> holders_;  // workers that hold the job's newest state in memory
  bool in_parts_ = true;           // each holds a part of it; assumed until the run reports
  bool saved_ = false;
};

}  // namespace leat
