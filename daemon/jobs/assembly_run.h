// The run of a job on its assembly: whether it runs, its reports, the workers that hold its newest
// state, and the reasons to stop it at a fence.
//
// A run is asked to stop at a fence when one of its workers drains, when more workers are free than
// an elastic job has, when others wait for those that it has beyond its least, and when a worker
// can replace one that the run has lost. A job that may not restart is left alone. Every run is
// asked when its job is to leave all of its workers: for a pause, for a job of a higher priority,
// or since its time is over. A run can do without some of its workers (backup workers,
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
  // The job's way after the fence: it continues in another assembly, it goes back into the
  // queue, or it is over. The last one that was asked for counts most.
  enum class Then : uint8_t { moves, requeues, ends };
  std::string cause;
  std::string culprit = {};  // a worker that drains; "" if none does
  bool saves = false;        // into a checkpoint
  Then then = Then::moves;
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
  void drop_memory() { newest_.holders.clear(); }
  // The run has stopped at a fence. Returns the reason.
  RunYield yielded(bool saved);

  // True if the worker drains, and the job's newest state is not lost with it.
  bool releases(const WorkerRef& worker) const;
  // Asks once; and again if the state must be saved now, and the first request did not say so, or
  // if the job is to do more after the fence.
  void ask_to_yield(RunYield why);
  // The reason to stop that the run has been told and has not followed yet.
  const std::optional<RunYield>& yields() const { return yield_; }
  // Asks the run to stop at a fence, and to go on without the last `count` of these workers, which
  // are in the order of their tasks. Does nothing if it was asked for something else before.
  void give_back(size_t count, const std::vector<std::string>& workers, std::string cause);
  // True if the run was asked to go on without that worker.
  bool gives_back(const std::string& worker) const { return returned_.contains(worker); }
  // If workers of the assembly drain, asks the run to stop at a fence. If there is no run, returns
  // the reason to end the assembly.
  std::optional<RunYield> leave_drained();
  // True if the run may continue without that worker. If it cannot, it reports an error itself.
  bool goes_on_without(const WorkerRef& worker, std::string text);
  // True if it is time for the run to take in more workers, should some be free.
  bool may_grow() const;
  // Asks the run to stop at a fence so that more workers can join, of `free` ones. Returns how
  // many. REQUIRES: may_grow().
  size_t grow(size_t free);
  // The number of workers for which the run was asked so and has not stopped yet.
  size_t grows_by() const { return yield_ ? grows_by_ : 0; }

  bool runs() const { return runs_; }
  bool stepped() const { return work_.stepped; }
  // The job is a lasting session that has nothing to do, as its run told last. An assembly that
  // starts, and a run that begins, are not idle until the run tells so: it may have steps to
  // repeat.
  bool idle() const { return work_.idle; }
  // "waits for room: ...", or "" if the run does not wait.
  const std::string& waits_for() const { return waits_for_; }
  // The workers that the run continues without.
  const std::vector<Missing>& missing() const { return missing_; }
  // True if another assembly can continue with everything that the job holds.
  bool may_move() const { return job_.max_restarts > 0; }
  ProgressMeter& progress() { return progress_; }
  const ProgressMeter& progress() const { return progress_; }

 private:
  // The places that have the job's newest state.
  struct Newest {
    std::set<std::string> holders;  // workers that hold it in memory
    bool in_parts = true;           // each holds a part of it; assumed until the run reports
    bool saved = false;             // a checkpoint has it
  };
  // The job is elastic, and worth another assembly.
  bool has_places() const;

  TableContext& context_;
  const StoredJob& job_;
  const Assembly& assembly_;
  const JobDemand& demand_;
  ProgressMeter progress_;
  bool runs_ = false;
  // Whether the run has done a step in this assembly, and idle().
  struct Work {
    bool stepped = false, idle = false;
  };
  Work work_;
  Clock::Steady ran_at_{};  // when the run began
  std::string waits_for_;
  uint32_t spared_from_ = 0;  // as its last report has it
  std::vector<Missing> missing_;
  std::optional<RunYield> yield_;
  std::set<std::string> returned_;  // workers that the next assembly does without
  size_t grows_by_ = 0;             // workers that the next assembly takes in
  Newest newest_;
};

}  // namespace leat
