// A worker: the devices of one machine, the state of the jobs on them, and the runs that step
// there.
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
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/executor.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run.h"
#include "transport/channel.h"

namespace leat {

// What a worker holds of one run: its partition, ready to step.
//
// Life: prepare() makes it, its slots are opened, connect() gives it its channels, start() hands it
// to the executor. It is ended by release(). Threads: any, as Run says.
class HostedPartition {
 public:
  HostedPartition(std::shared_ptr<const Plan> plan, uint32_t partition)
      : plan_(std::move(plan)), partition_(partition) {}
  bool connected() const { return run_ != nullptr; }
  Run& run() { return *run_; }  // REQUIRES: connected()
  uint32_t partition() const { return partition_; }
  const Plan& plan() const { return *plan_; }
  SlotTable& slots() { return *slots_; }

 private:
  friend class DeviceHost;
  std::shared_ptr<const Plan> plan_;
  uint32_t partition_;
  std::unique_ptr<SlotTable> slots_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Run> run_;
};

class DeviceHost {
 public:
  // Task `task` of the cluster, with one CPU device of `threads` compute threads.
  DeviceHost(int task, int threads);
  ~DeviceHost();

  // Full names: "job:worker/task:0/cpu:0". Threads: not while it changes.
  std::string device_name() const { return device_name_; }
  // From now on it is that task. REQUIRES: it has no runs.
  void become(int task);
  cpu::CpuDevice& device() { return device_; }
  int threads() { return device_.pool().threads(); }

  // The state of a job here; made when it is first asked for. `data_root`: where its data sets are.
  JobResources& resources(const std::string& job, const std::string& data_root = {});
  // Frees the state of a job. REQUIRES: its runs are released.
  void drop(const std::string& job);

  // Takes a partition of a plan. Its receive slots are closed: open_slots() opens them, or whoever
  // makes the links to its peers, in memory that suits them. Channels come next.
  std::shared_ptr<HostedPartition> prepare(std::shared_ptr<const Plan> plan, uint32_t partition);
  // Opens those that come from a partition of `from` (by partition of the plan; empty: from all),
  // in the device's memory. resource_exhausted if there is none.
  Status open_slots(HostedPartition& run, const std::vector<bool>& from = {});
  // Gives the run its channels (by partition of the plan; null where nothing is sent), makes its
  // kernels and binds everything. `job`'s resources are found or made.
  Status connect(HostedPartition& run, std::vector<std::unique_ptr<Channel>> channels,
                 const std::string& job, RunOptions options);
  // Hands the run to the executor; it steps when its limit rises.
  void start(HostedPartition& run);
  void extend(HostedPartition& run, uint64_t limit);
  // As Run has them.
  uint64_t hold(HostedPartition& run) { return run.run().hold(); }
  void fence(HostedPartition& run, uint64_t limit);
  Status between_steps(HostedPartition& run, uint64_t step, std::function<void()> between);
  // Takes the run out; nothing of it runs afterwards.
  void release(HostedPartition& run);
  // What the run waits for, for people; "" if nothing.
  std::string waits_for(HostedPartition& run) { return executor_.waits_for(run.run()); }
  // A peer, to send a value or to take one.
  bool waits_for_peer(HostedPartition& run) { return executor_.waits_for_peer(run.run()); }

 private:
  std::string device_name_;
  cpu::CpuDevice device_;
  Executor executor_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<JobResources>> jobs_;
};

}  // namespace leat
