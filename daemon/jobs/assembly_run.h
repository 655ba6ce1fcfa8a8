// The run of a job on its assembly: whether it goes, what it says of itself, which workers hold
// what it has come to, and when it should come to a fence.
//
// A run is asked to come to a fence when one of its workers drains, when more workers are free than
// an elastic job has, and when a worker can take the place of one that it goes on without. A job
// that may not restart is left alone. A run may spare some of its workers (backup workers,
// ProgressReport::spared_from): a spared worker that is lost is no failure, unless the run says so.
//
// What has to be done goes into the actions of the context.
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

// Why a run was asked to come to a fence.
struct RunYield {
  std::string cause;
  std::string culprit;  // a worker that drains; "" if none does
  bool saves = false;   // into a checkpoint
};

class AssemblyRun {
 public:
  struct Missing {
    std::string worker;
    std::string text;  // what became of it
  };

  // All of them outlive this.
  AssemblyRun(TableContext& context, const StoredJob& job, const Assembly& assembly,
              const JobDemand& demand)
      : context_(context), job_(job), assembly_(assembly), demand_(demand) {}

  // Another assembly has begun; these workers have nothing of the job in memory.
  void renew(const std::vector<WorkerRef>& joining);
  void begin();
  // No-op if it does not go.
  void end(const std::string& reason);
  void made_progress(const ProgressReport& report);
  void waits(std::string for_what) { waits_for_ = std::move(for_what); }
  // All workers of the assembly have what the job has come to. `saved`: a checkpoint has it, too.
  void hold(bool saved);
  // No worker has it.
  void drop_memory() { holders_.clear(); }
  // It stands at a fence. Returns why.
  RunYield yielded(bool saved);

  // True if the worker drains, and what the job has come to is not lost with it.
  bool releases(const WorkerRef& worker) const;
  // If workers of the assembly drain: asks the run to come to a fence. Returns the cause if there
  // is no run, and the assembly is to be given up.
  std::optional<RunYield> leave_drained();
  // True if the run does not need that worker. An error of the run follows if it does.
  bool goes_on_without(const WorkerRef& worker, std::string text);
  // Asks the run to come to a fence for more workers, `free` at most; returns how many.
  size_t grow(size_t free);

  bool runs() const { return runs_; }
  bool stepped() const { return stepped_; }
  // "waits for room: ..."; "" while it does not.
  const std::string& waits_for() const { return waits_for_; }
  // Workers that it goes on without.
  const std::vector<Missing>& missing() const { return missing_; }
  // The job holds nothing that another assembly could not go on with.
  bool may_move() const { return job_.max_restarts > 0; }
  ProgressMeter& progress() { return progress_; }
  const ProgressMeter& progress() const { return progress_; }

 private:
  bool may_grow() const;
  // Once, and once more if it is to be saved now and was not before.
  void ask_to_yield(RunYield why);

  TableContext& context_;
  const StoredJob& job_;
  const Assembly& assembly_;
  const JobDemand& demand_;
  ProgressMeter progress_;
  bool runs_ = false;
  bool stepped_ = false;    // in this assembly
  Clock::Steady ran_at_{};  // when it began
  std::string waits_for_;
  uint32_t spared_from_ = 0;  // as it says
  std::vector<Missing> missing_;
  std::optional<RunYield> yield_;
  std::set<std::string> holders_;  // workers that have in memory what the job last came to
  bool in_parts_ = true;           // each has a part of it; so it is taken until the run says
  bool saved_ = false;
};

}  // namespace leat
