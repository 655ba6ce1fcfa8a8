// The runs of a runner, and the assembly that the runner is in. A run has a partition for each of
// the runner's devices that its plan uses; each is an entry of the table by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/runner/control_threads.h"
#include "daemon/runner/hosted_run.h"
#include "daemon/runner/runner_config.h"
#include "daemon/runner/runner_parts.h"
#include "daemon/wire/runner_pulse.h"

namespace leat {

// JobRunner owns it. The master's calls find their run here. A run is in the table from expect()
// until its release is done, so a repeated release waits for the first one.
// Threads: any. A `done` is called once, on one of the control threads or by the caller, and must
// not block; it is dropped uncalled if the control threads have stopped.
class RunTable {
 public:
  using Done = std::function<void(const Status&)>;

  // Each run gets a strand of `control`. `job_strand` is where the job's variables are read and
  // written. All outlive the table.
  RunTable(RunnerParts& parts, ControlThreads& control, ControlThreads::Strand job_strand);
  RunTable(const RunTable&) = delete;
  RunTable& operator=(const RunTable&) = delete;

  // The assembly that the runner is in, and its devices as plans name them there: the CPU first.
  RunnerAssembly assembly() const;
  std::vector<PlanDevice> devices() const;

  // The run that a plan is to come for; made if it is new. failed_precondition if the run has
  // another plan. resource_exhausted beyond the greatest number of runs; failed_precondition while
  // the runner advances to another assembly; the cause of stop() after that call.
  Result<std::shared_ptr<HostedRun>> expect(const RunPart& run, const Sha256Digest& digest);
  // failed_precondition if there is no such run.
  Result<std::shared_ptr<HostedRun>> find(const RunPart& run) const;
  // The same, of a run that is connected; failed_precondition if it is not.
  Result<std::shared_ptr<LiveRun>> find_live(const RunPart& run) const;
  // A copy, in the order of the runs' numbers.
  std::vector<std::shared_ptr<HostedRun>> runs() const;

  // Both are ok also for a run that is not there. The cause takes effect at once: a connect() that
  // waits returns it. `done` is called when the run has ended, and always with ok.
  void abort(const RunPart& run, const Status& cause, Done done);
  void release(const RunPart& run, Done done);

  // Goes on in assembly `to`: peers of it are let in, and later runs are of it. Ends and releases
  // the runs that are left first. The job's variables stay as they are; but a job with other state
  // (queues, counters), which is of no use after a failure, begins with nothing.
  // failed_precondition if the runner is in a later assembly already. Calls for the job's variables
  // that came before are done first. Ok at once if the runner is in `to` already. While it
  // advances, expect() makes no run.
  void advance(const RunnerAssembly& to, Done done);
  // Blocks until no run has an unfinished allowed step. deadline_exceeded after 30 s. Callers read
  // or write variables next, so it runs on the job's strand. The deadline is for all runs together.
  Status settle() const;
  // Sums over all runs, released ones included, so that turns and traffic never fall; and the
  // memory that is reserved now. Does not block on runs.
  RunnerPulse pulse() const;
  // Ends all runs with this cause. New runs are refused with it. Does not wait for the ends of the
  // runs. The first cause stays.
  void stop(const Status& cause);

 private:
  // The last part of advance(), on the job's strand.
  void become(const RunnerAssembly& assembly);

  RunnerParts& parts_;
  ControlThreads& control_;
  ControlThreads::Strand job_strand_;

  mutable std::mutex mutex_;
  RunnerAssembly assembly_;
  uint64_t advancing_ = 0;  // the assembly it is on the way to: no run is made meanwhile; 0: none
  std::map<RunPart, std::shared_ptr<HostedRun>> runs_;
  HostedRun::Work released_;          // of the runs that are released
  bool more_than_variables_ = false;  // a released run of this assembly had other state
  Status stopped_;
};

}  // namespace leat
