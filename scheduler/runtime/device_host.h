// A host in this process: its devices, the state of the jobs on them, and the runs that step there.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "devices/cpu/cpu_device.h"
#include "ops/state/resources.h"
#include "scheduler/graph/plan_device.h"
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/executor.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run.h"
#include "transport/channel.h"

namespace leat {

// One partition of a plan that a host runs, with everything that the run needs: slots, channels,
// program and run.
//
// Life: DeviceHost::prepare() makes it and open_slots() opens its slots; connect() gives it its
// channels, start() hands it to the executor, and release() ends it. The caller owns it.
//
// Threads: any, as Run says.
class HostedPartition {
 public:
  // `device` is the number of its device at the host.
  HostedPartition(std::shared_ptr<const Plan> plan, uint32_t partition, size_t device)
      : plan_(std::move(plan)), partition_(partition), device_(device) {}
  bool connected() const { return run_ != nullptr; }
  Run& run() { return *run_; }  // REQUIRES: connected()
  uint32_t partition() const { return partition_; }
  size_t device() const { return device_; }
  const Plan& plan() const { return *plan_; }
  SlotTable& slots() { return *slots_; }
  // For partitions of this process that push to it, and may be released later.
  const std::shared_ptr<SlotTable>& shared_slots() const { return slots_; }

 private:
  friend class DeviceHost;
  std::shared_ptr<const Plan> plan_;
  uint32_t partition_;
  size_t device_;
  std::shared_ptr<SlotTable> slots_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Run> run_;
};

// Owns the devices, an executor for each, and the state of the jobs, and steps the runs of all jobs
// there. Device 0 is the CPU. The others are accelerators, which run what they have kernels for;
// the host's work of a plan (input, queues, small integers) is done by the CPU.
//
// Threads: any, unless a function says otherwise. The calls from prepare() to start() for one
// HostedPartition come one after the other.
class DeviceHost {
 public:
  // The host is task `task` of its job, with a CPU of `threads` compute threads.
  DeviceHost(int task, int threads, std::vector<std::unique_ptr<Device>> accelerators = {});
  ~DeviceHost();

  // The full name of a device, "job:worker/task:0/cpu:0". Threads: any, but not during become().
  std::string device_name(size_t device = 0) const;
  int task() const { return task_; }
  // Makes the host another task. REQUIRES: it has no runs.
  void become(int task);
  cpu::CpuDevice& device() { return cpu_; }
  // REQUIRES: number < devices()
  Device& device(size_t number);
  size_t devices() const { return 1 + accelerators_.size(); }
  // The devices as plans name them.
  std::vector<PlanDevice> plan_devices();
  int threads() { return cpu_.pool().threads(); }

  // The state of a job on a device of this host, made at the first call.
  JobResources& resources(const std::string& job, size_t device = 0);
  // The state of a job on each of the devices.
  std::vector<JobResources*> all_resources(const std::string& job);
  // Frees the state of a job. REQUIRES: its runs are released.
  void drop(const std::string& job);

  // Takes a partition of a plan, with its receive slots closed. open_slots() opens them, or the
  // code that makes the links to its peers does, in memory that suits the links. Channels come
  // next. invalid_argument if the partition's device is none of this host's.
  Result<std::shared_ptr<HostedPartition>> prepare(std::shared_ptr<const Plan> plan,
                                                   uint32_t partition);
  // Opens the slots of values from the partitions in `from` (indexed by partition of the plan;
  // empty: all). resource_exhausted if there is too little memory; unavailable as below.
  Status open_slots(HostedPartition& run, const std::vector<bool>& from = {});
  // Makes the program and the run. `channels` are by partition of the plan, null where nothing is
  // sent. The run uses the state of `job`, which is made if need be. failed_precondition if a
  // variable of the partition is on another device of the host; unavailable if the device is lost.
  Status connect(HostedPartition& run, std::vector<std::unique_ptr<Channel>> channels,
                 const std::string& job, RunOptions options);
  // Hands the run to the executor. It steps when its limit rises.
  void start(HostedPartition& run);
  void extend(HostedPartition& run, uint64_t limit);
  // As the functions of Run.
  uint64_t hold(HostedPartition& run) { return run.run().hold(); }
  void fence(HostedPartition& run, uint64_t limit);
  Status between_steps(HostedPartition& run, uint64_t step, std::function<void()> between);
  // Takes the run out of the executor. When this returns, nothing of it runs any more; its memory
  // is freed with the HostedPartition.
  void release(HostedPartition& run);
  // Describes for people what the run waits for; "" if it waits for nothing.
  std::string waits_for(HostedPartition& run) { return executor(run).waits_for(run.run()); }
  // True if it waits for a peer, which has yet to send a value or to make room for one.
  bool waits_for_peer(HostedPartition& run) { return executor(run).waits_for_peer(run.run()); }
  // Its state now.
  RunSight sight(HostedPartition& run) { return executor(run).sight(run.run()); }

 private:
  // An accelerator with its executor, which only enqueues work: the pool is its driver alone.
  struct Accelerator {
    Accelerator(std::unique_ptr<Device> owned, std::string driver)
        : device(std::move(owned)), executor(pool, std::move(driver)) {}
    std::unique_ptr<Device> device;
    cpu::Pool pool{1};
    Executor executor;
  };

  Status check_variables(const HostedPartition& run, const std::string& job);
  Executor& executor(const HostedPartition& run) {
    return run.device() == 0 ? executor_ : accelerators_[run.device() - 1]->executor;
  }

  int task_;
  cpu::CpuDevice cpu_;
  Executor executor_;
  std::vector<std::unique_ptr<Accelerator>> accelerators_;
  std::mutex mutex_;
  // By job and device.
  std::map<std::pair<std::string, size_t>, std::unique_ptr<JobResources>> jobs_;
};

}  // namespace leat
