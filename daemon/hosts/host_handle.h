// Interfaces by which the master drives hosts: HostHandle drives a host, and PartitionRun one
// partition of a plan that the host runs. A host is either in this process (local_host.h) or in a
// runner's process (daemon/remote/remote_host.h).
//
// Every call returns in bounded time, and its error names the host. Threads: any, but only one call
// on an object at a time, unless a function says otherwise.
#pragma once

#include <algorithm>
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
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/plan_device.h"
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/run.h"
#include "transport/endpoint.h"

namespace leat {

// How a host's runs get the rows of the data.
struct InputNumbers {
  double wait_seconds = 0;   // RunWork::input_wait
  uint64_t steps_ahead = 0;  // RunWork::steps_ahead
  // Adds those of another run.
  void add(const InputNumbers& other) {
    wait_seconds += other.wait_seconds;
    steps_ahead = std::max(steps_ahead, other.steps_ahead);
  }
};

// One partition of a run. Destroying it releases the run on its host.
//
// The partitions of a run start together, since each needs the others: the caller calls prepare()
// for all, prepared() on all, connect() on all, and connected() on all. They also end together:
// release() on all, then stop() on all. prepare(), connect() and release() only send the request if
// the host is in another process; prepared(), connected() and stop() wait for the outcome.
class PartitionRun {
 public:
  virtual ~PartitionRun() = default;

  // Blocks until the host has taken the partition and its peers may connect to it.
  virtual Status prepared() { return {}; }
  // Returns the address to which the other partitions push the values that this one receives.
  virtual Endpoint endpoint() const = 0;
  // Gives the run its peers (by partition of the plan) and begins to make its kernels and to bind
  // everything. REQUIRES: all partitions are prepared().
  virtual void connect(std::span<const Endpoint> peers, const RunOptions& options) = 0;
  // Blocks until the partition can step.
  virtual Status connected() = 0;

  // Copies a value to feed `i` of the plan. REQUIRES: all allowed steps are finished.
  virtual Status feed(uint32_t i, const Tensor& value) = 0;
  // Allows the steps below `limit`. If this is impossible, the run fails.
  virtual void extend(uint64_t limit) = 0;
  // Withdraws the permission for all steps after the current one. Returns the limit that remains.
  virtual Result<uint64_t> hold() = 0;
  // Sets the limit to `limit`, even if it was higher. REQUIRES: no step from `limit` on can end,
  // because the run is held on a partition that this one needs for it.
  virtual void fence(uint64_t limit) = 0;
  // Returns how far a limit may be beyond the first step whose fetches the caller still needs.
  virtual uint64_t window() const { return kFetchDepth / 2; }
  // Orders a copy of the job's variables `names`, like HostHandle::take_snapshot(), after the steps
  // below `step` and before the next one begins, without stopping the run. The copy is done when
  // the steps below `step` are finished(). If it fails, the reader or writer of the snapshot
  // reports the failure. Returns false if the host makes copies only while no step runs. REQUIRES:
  // no step from `step` on is allowed.
  virtual bool snapshot_in_passing(uint64_t /*step*/, const std::vector<std::string>& /*names*/) {
    return false;
  }
  // Changes the number of the next step, as kernels see it, to `step`. REQUIRES: all allowed steps
  // are finished.
  virtual void renumber(uint64_t step) = 0;
  // The timeline is at n when n steps of the run are finished; it fails when the run fails.
  virtual Timeline& finished() = 0;
  // Returns the bytes of fetch `i` of a finished step. REQUIRES: the step is less than window()
  // below the limit.
  virtual const void* fetched(uint32_t i, uint64_t step) = 0;
  // Fails the run. Only the first cause counts.
  virtual void abort(const Status& cause) = 0;
  // Begins to end the run. REQUIRES, like stop(): it was aborted, or all allowed steps are
  // finished.
  virtual void release() {}
  // Blocks until the host computes nothing of the run and will not compute anything of it again, or
  // until a host that does not answer has missed its deadline.
  virtual void stop() = 0;

  // As far as the caller has heard of it.
  virtual InputNumbers input() const { return {}; }
  // Describes for people what the partition waits for; "" if it waits for nothing.
  virtual std::string waits_for() = 0;
  // Returns the text of profile_text(); "" without RunOptions::profile.
  virtual std::string profile() = 0;
};

// The devices of one host and the state of jobs on them. `job` names the state that the runs of a
// job share; it is created when it is first named.
class HostHandle {
 public:
  virtual ~HostHandle() = default;

  // The name of the host in messages.
  virtual std::string name() const { return devices().front().name; }
  // Its devices, at least one: a CPU.
  virtual std::vector<PlanDevice> devices() const = 0;
  // The part that the names of its devices share: "job:worker/task:0".
  std::string task() const { return task_of(devices().front().name); }

  // Sets the folder of the data sets that the job's plans read: DatasetFiles::root.
  virtual void set_data_root(const std::string& job, const std::string& root) = 0;
  // Calls report_dataset() of ops/data/dataset.h for the files as the host sees them.
  virtual Result<DatasetReport> inspect(const DatasetFiles& files, const ClassCheck& check) = 0;

  // Gives the host a partition of a plan, for which it opens the receive slots; does not wait for a
  // host in another process. All partitions of a run have the same number `run`, and no other run
  // of the master has it.
  virtual Result<std::unique_ptr<PartitionRun>> prepare(std::shared_ptr<const Plan> plan,
                                                        uint32_t partition, const std::string& job,
                                                        uint64_t run) = 0;

  // Returns copies of the job's variables. REQUIRES: no step runs.
  virtual Result<std::map<std::string, Tensor>> read_variables(const std::string& job) = 0;
  // The same, but the tensors are the variables' own memory where that is memory of this process.
  // The caller writes to none of them. REQUIRES: no step runs while they live.
  virtual Result<std::map<std::string, Tensor>> lend_variables(const std::string& job) {
    return read_variables(job);
  }
  // Writes the job's variables. `step`: the values are those after so many steps; none: the values
  // belong to no particular step.
  virtual Status write_variables(const std::string& job,
                                 const std::map<std::string, Tensor>& values, Restore what,
                                 std::optional<uint64_t> step) = 0;
  // Returns the progress of the job's variables here. REQUIRES: the job's runs here are released.
  virtual Result<Held> held(const std::string& job) = 0;

  // --- Snapshots: copies that are read while steps run. The host keeps the last one. ---

  // Copies the job's variables `names` after `step` steps. REQUIRES: no step runs. The next step
  // may begin when the call returns.
  virtual Status take_snapshot(const std::string& job, int64_t step,
                               const std::vector<std::string>& names) = 0;
  // The same, but the snapshot is the variables' own memory where that is memory of this process.
  // REQUIRES: no step runs until drop_snapshot().
  virtual Status lend_snapshot(const std::string& job, int64_t step,
                               const std::vector<std::string>& names) {
    return take_snapshot(job, step, names);
  }
  // Passes the snapshot of `step` to `take`, as the bytes of a checkpoint's part.
  // failed_precondition if there is none. Ends early with `cancelled` when a stop is requested
  // through `stop`. Threads: any, even during other calls.
  virtual Status read_snapshot(int64_t step, const TakeBytes& take,
                               const std::stop_token& stop) = 0;
  // Has the host itself write the snapshot to `place`, and returns when it is on disk.
  // failed_precondition or unimplemented: the caller must read the snapshot and write it. Otherwise
  // like read_snapshot(). After an early end, the host may still write the file.
  virtual Result<CheckpointPart> write_snapshot(int64_t step, const PartPlace& place,
                                                const std::stop_token& stop) = 0;
  // Gives the memory of the last snapshot back, where that is memory of this process.
  virtual void drop_snapshot() {}
};

}  // namespace leat
