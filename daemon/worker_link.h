// Workers as the master sees them: in this process (local_worker.h) or across the wire. The master
// drives both alike.
//
// Every call returns in bounded time, and an error names the worker. Threads: any, one call on one
// object at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "daemon/variables.h"
#include "devices/base/status.h"
#include "devices/device.h"
#include "devices/tensor.h"
#include "ops/dataset.h"
#include "scheduler/runtime/plan.h"
#include "scheduler/runtime/run.h"
#include "transport/endpoint.h"

namespace leat {

// One partition of a run. Destroying it releases the run on its worker.
class PartitionRun {
 public:
  virtual ~PartitionRun() = default;

  // Where the other partitions push what this one receives.
  virtual Endpoint endpoint() const = 0;
  // Gives the run its peers (by partition of the plan), makes its kernels and binds everything.
  virtual Status connect(std::span<const Endpoint> peers, const RunOptions& options) = 0;

  // Copies a value to feed i. REQUIRES: all allowed steps are finished.
  virtual Status feed(uint32_t i, const Tensor& value) = 0;
  // Allows the steps below `limit`.
  virtual void extend(uint64_t limit) = 0;
  // The next step calls itself `step` from here on, wherever a kernel asks. REQUIRES: all allowed
  // steps are finished.
  virtual void renumber(uint64_t step) = 0;
  // At n when n steps of the run are finished; fails when the run fails.
  virtual Timeline& finished() = 0;
  // The bytes of fetch i of a step that is one of the last kFetchDepth finished ones.
  virtual const void* fetched(uint32_t i, uint64_t step) = 0;
  // The first cause stays.
  virtual void abort(const Status& cause) = 0;
  // Returns when nothing of the run is being computed and nothing will be again. REQUIRES: it was
  // aborted, or all allowed steps are finished.
  virtual void stop() = 0;

  // Who waits for what, for people; "" if nothing does.
  virtual std::string waits_for() = 0;
  // See profile_text(); "" without RunOptions::profile.
  virtual std::string profile() = 0;
};

// The devices of one worker and the jobs' state on them. `job` names the state that the runs of a
// job share; it is made when it is first named.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;

  // "job:worker/task:0/cpu:0"
  virtual std::string device_name() const = 0;
  virtual uint64_t memory_bytes() const = 0;

  // Takes a partition of a plan and opens its receive slots.
  virtual Result<std::unique_ptr<PartitionRun>> prepare(std::shared_ptr<const Plan> plan,
                                                        uint32_t partition,
                                                        const std::string& job) = 0;

  // Copies of the job's variables; what there is between two steps.
  virtual Result<std::map<std::string, Tensor>> read_variables(const std::string& job) = 0;
  virtual Status write_variables(const std::string& job,
                                 const std::map<std::string, Tensor>& values, Restore what) = 0;
};

}  // namespace leat
