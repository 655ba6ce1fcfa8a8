// The runners of one job: leases workers and begins assemblies, keeps or stops runners when an
// assembly is over, and gives the leases back.
//
// A worker's lease ends when its runner is gone or the worker is lost. When a failure ends an
// assembly, the runners that it did not affect are kept: each waits, with its lease and with the
// job in memory, for the next assembly. tick() ends all waits.
//
// The class adds actions to the context. It writes nothing to the journal: the job (cluster_job.h)
// writes first, then calls.
//
// Threads: one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/assembly.h"
#include "daemon/jobs/assembly_run.h"
#include "daemon/jobs/job_demand.h"
#include "daemon/jobs/table_context.h"

namespace leat {

class JobRunners {
 public:
  // Both outlive this object.
  JobRunners(TableContext& context, const StoredJob& job)
      : context_(context),
        job_(job),
        demand_(context, job, assembly_),
        run_(context, job, assembly_, demand_) {}

  Assembly& assembly() { return assembly_; }
  const Assembly& assembly() const { return assembly_; }
  JobDemand& demand() { return demand_; }
  const JobDemand& demand() const { return demand_; }
  AssemblyRun& run() { return run_; }
  const AssemblyRun& run() const { return run_; }
  // True if workers of the job hold a part of it in memory.
  bool some_kept() const { return run_.runs() || assembly_.kept() > 0; }

  // The master has restarted: the runners of the last assembly may come back.
  void restore();
  // True while a worker that had a runner may come back.
  bool awaits_workers() const;
  // A worker has joined with a runner that it held while the master was away. Returns false if the
  // job does not wait for that runner.
  bool take_up(const WorkerRef& worker, const HeldRunner& runner);
  // Stops that runner. If the worker is free, the job leases it until the runner is gone.
  void expel(const WorkerRef& worker, uint64_t assembly);

  // Leases workers and begins the next assembly with them and the kept runners. Returns false if
  // the job must wait because it leaves workers out for some time, or has to leave those that are
  // named in `avoid` to others. An elastic job takes at most `extra` workers beyond its least.
  // REQUIRES: demand().wanted() workers are free and fit.
  bool renew(size_t extra, const std::vector<std::string>& avoid);
  // The new assembly could not be written: its workers are released.
  void undo();
  // Asks all leased workers for their runners.
  void ask();
  // The runner or its worker is gone.
  void left(const WorkerRef& worker);
  // Ends the run, and keeps the runners that are not suspected for the next assembly. `at_once`:
  // the others do not end by themselves.
  void part(const std::string& reason, bool at_once);
  // Ends the run and stops all runners.
  void stop(const std::string& reason);
  // Expels workers whose runners did not stop in time. Returns those whose runners did not start in
  // time.
  std::vector<WorkerRef> tick();
  // True if kept runners have waited too long for others.
  bool waited_too_long();

 private:
  void leave(Assembly::Leaving leaving, std::chrono::milliseconds grace, const std::string& reason);
  // Adds the job to the list of jobs with runners, or removes it.
  void file();

  TableContext& context_;
  const StoredJob& job_;
  Assembly assembly_;
  JobDemand demand_;
  AssemblyRun run_;
  Clock::Steady parted_at_{};  // when its runners began to wait for the next assembly
  std::optional<Clock::Steady> take_up_until_;  // runners from before a restart may come until then
};

}  // namespace leat
