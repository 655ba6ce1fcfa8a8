// The runners of one job: it leases workers and begins assemblies, keeps or stops runners when one
// is over, and gives the leases back.
//
// A worker's lease ends when its runner is gone or the worker is lost. When a failure ends an
// assembly, the runners that it did not affect are kept: each waits, with its lease and the job in
// memory, for the next assembly. All waits end by tick().
//
// What has to be done goes into the actions of the context. Nothing here is written to the journal:
// the job (cluster_job.h) writes first, then calls.
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
  // Both outlive this.
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
  // Workers of the job hold part of it in memory.
  bool some_kept() const { return run_.runs() || assembly_.kept() > 0; }

  // The master has restarted: the runners of the last assembly may come back.
  void restore();
  // Some worker may come back that had a runner, and is not there yet.
  bool awaits_workers() const;
  // A worker is there with a runner that it has held while the master was away. False if the job
  // does not wait for it.
  bool take_up(const WorkerRef& worker, const HeldRunner& runner);
  // That runner is to go. If the worker is free, the job leases it until then.
  void expel(const WorkerRef& worker, uint64_t assembly);

  // Leases workers and begins the next assembly with them and those that are kept; false if the job
  // has to wait for the end of a time in which it leaves workers out. REQUIRES: demand().wanted()
  // workers are free and fit.
  bool renew();
  // The new assembly could not be written: its workers are released.
  void undo();
  // Asks all leased workers for their runners.
  void ask();
  // The runner or its worker is gone.
  void left(const WorkerRef& worker);
  // The run ends, and the runners that are not suspected are kept for the next assembly.
  // `at_once`: the others do not end by themselves.
  void part(const std::string& reason, bool at_once);
  // The run ends, and all runners go.
  void stop(const std::string& reason);
  // Expels workers whose runners are late to go. Returns those whose runners are late to start.
  std::vector<WorkerRef> tick();
  // True if kept runners have waited too long for others.
  bool waited_too_long();

 private:
  void leave(Assembly::Leaving leaving, std::chrono::milliseconds grace, const std::string& reason);
  // Enters the job among those that have runners, or takes it from them.
  void file();

  TableContext& context_;
  const StoredJob& job_;
  Assembly assembly_;
  JobDemand demand_;
  AssemblyRun run_;
  Clock::Steady parted_at_{};  // when its runners began to wait for the next assembly
  std::optional<Clock::Steady> take_up_until_;  // the runners from before a restart may come
};

}  // namespace leat
