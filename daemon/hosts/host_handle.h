// Workers as the master sees them: in this process (local_worker.h) or across the wire. The master
// drives both alike.
//
// Every call returns in bounded time, and an error names the worker. Threads: any, one call on one
// object at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/hosts/variables.h"
#include "devices/base/status.h"
#include "devices/core/device.h"
#include "devices/core/tensor.h"
#include "ops/data/dataset.h"
#include "ops/state/commits.h"
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/run.h"
#include "transport/endpoint.h"

namespace leat {

// One partition of a run. Destroying it releases the run on its worker.
//
// Its partitions are made ready together, since each needs the others: prepare() of all, prepared()
// of all, connect() of all, connected() of all; and ended together: release() of all, stop() of
// all. What begins something returns at once where a worker is another process.
class PartitionRun {
 public:
  virtual ~PartitionRun() = default;

  // Returns when the worker has taken the partition and its peers may connect to it.
  virtual Status prepared() { return {}; }
  // Where the other partitions push what this one receives.
  virtual Endpoint endpoint() const = 0;
  // Begins to give the run its peers (by partition of the plan), to make its kernels and to bind
  // everything. REQUIRES: all partitions are prepared().
  virtual void connect(std::span<const Endpoint> peers, const RunOptions& options) = 0;
  // Returns when it can step.
  virtual Status connected() = 0;

  // Copies a value to feed i. REQUIRES: all allowed steps are finished.
  virtual Status feed(uint32_t i, const Tensor& value) = 0;
  // Allows the steps below `limit`. That it cannot be done fails the run.
  virtual void extend(uint64_t limit) = 0;
  // Takes back what it was allowed beyond the step that it is in; the limit that is left.
  virtual Result<uint64_t> hold() = 0;
  // The limit is this, also where it was higher. REQUIRES: no step from there on can end, since the
  // run is held on a partition that this one needs for it.
  virtual void fence(uint64_t limit) = 0;
  // How far a limit may be beyond the step whose fetches are still wanted.
  virtual uint64_t window() const { return kFetchDepth / 2; }
  // Copies these of the job's variables in passing, when the steps below `step` are done and before
  // the next is begun, as HostHandle::take_snapshot() does; when `step` steps are finished(), it is
  // done. That it cannot be done is said by who reads or writes the snapshot. False if the worker
  // does it between steps alone. REQUIRES: no step from there on is allowed.
  virtual bool snapshot_in_passing(uint64_t /*step*/, const std::vector<std::string>& /*names*/) {
    return false;
  }
  // The next step calls itself `step` from here on, wherever a kernel asks. REQUIRES: all allowed
  // steps are finished.
  virtual void renumber(uint64_t step) = 0;
  // At n when n steps of the run are finished; fails when the run fails.
  virtual Timeline& finished() = 0;
  // The bytes of fetch i of a finished step, which is less than window() below the limit.
  virtual const void* fetched(uint32_t i, uint64_t step) = 0;
  // The first cause stays.
  virtual void abort(const Status& cause) = 0;
  // Begins to end. REQUIRES, as stop() does: it was aborted, or all allowed steps are finished.
  virtual void release() {}
  // Returns when nothing of the run is being computed and nothing will be again; or when a worker
  // that cannot be asked has had the time to say so.
  virtual void stop() = 0;

  // Who waits for what, for people; "" if nothing does.
  virtual std::string waits_for() = 0;
  // See profile_text(); "" without RunOptions::profile.
  virtual std::string profile() = 0;
};

// The devices of one worker and the jobs' state on them. `job` names the state that the runs of a
// job share; it is made when it is first named.
class HostHandle {
 public:
  virtual ~HostHandle() = default;

  // What messages call the worker.
  virtual std::string name() const { return device_name(); }
  // "job:worker/task:0/cpu:0"
  virtual std::string device_name() const = 0;
  virtual uint64_t memory_bytes() const = 0;

  // Where the data sets are that the job's plans read: DatasetFiles::root.
  virtual void set_data_root(const std::string& job, const std::string& root) = 0;
  // report_dataset() of ops/data/dataset.h, of the files as the worker sees them.
  virtual Result<DatasetReport> inspect(const DatasetFiles& files, int64_t classes) = 0;

  // Begins to take a partition of a plan and to open its receive slots. `run` is one number for all
  // partitions of a run, and for no other run of the master.
  virtual Result<std::unique_ptr<PartitionRun>> prepare(std::shared_ptr<const Plan> plan,
                                                        uint32_t partition, const std::string& job,
                                                        uint64_t run) = 0;

  // Copies of the job's variables; what there is between two steps.
  virtual Result<std::map<std::string, Tensor>> read_variables(const std::string& job) = 0;
  // `step`: they are the values after so many steps; none: of no step in particular.
  virtual Status write_variables(const std::string& job,
                                 const std::map<std::string, Tensor>& values, Restore what,
                                 std::optional<uint64_t> step) = 0;
  // How far they are here. REQUIRES: the job's runs here are released.
  virtual Result<Held> held(const std::string& job) = 0;

  // --- Snapshots: copies that are read while steps go on. The worker keeps the last one.

  // Copies these of the job's variables as they are between two steps, after `step` of them; the
  // next step may begin when it returns.
  virtual Status take_snapshot(const std::string& job, int64_t step,
                               const std::vector<std::string>& names) = 0;
  // What take_snapshot() of `step` copied, as the bytes of a checkpoint's part. failed_precondition
  // if there is none. Threads: any, beside all other calls. Ends early, with `cancelled`, when
  // `stop` is asked for.
  virtual Status read_snapshot(int64_t step, const TakeBytes& take,
                               const std::stop_token& stop) = 0;
  // Writes the part itself, where the master says, and returns when it is on disk.
  // failed_precondition or unimplemented: the master has to read it and write it. Otherwise as
  // read_snapshot(); what was asked for may still be written after an early end.
  virtual Result<CheckpointPart> write_snapshot(int64_t step, const PartPlace& place,
                                                const std::stop_token& stop) = 0;
};

}  // namespace leat
