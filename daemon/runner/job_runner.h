// A runner: the devices, links, runs and variables of one job on one machine. Each runner has its
// own process. The master's calls come in through wire_runner_service.h; reports to the master go
// out through reporter.h.
//
//   RunTable   the runs and their assembly
//   JobData    the job's variables, their snapshots, and its data sets
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/runner/arrivals.h"
#include "daemon/runner/control_threads.h"
#include "daemon/runner/device_memory.h"
#include "daemon/runner/job_data.h"
#include "daemon/runner/run_table.h"
#include "daemon/runner/runner_config.h"
#include "daemon/runner/runner_parts.h"
#include "devices/base/log.h"
#include "scheduler/runtime/device_host.h"
#include "transport/io/listener.h"
#include "transport/io/reactor.h"
#include "transport/shm/bell.h"

namespace leat {

// Threads: any. No call waits without a deadline.
class JobRunner {
 public:
  // `catalogue` outlives it; `news` is called from any thread and must not block.
  static Result<std::unique_ptr<JobRunner>> create(RunnerConfig config, const Catalogue& catalogue,
                                                   TurnLog::News news, Logger log);
  // Stops, ends its threads, and frees everything.
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Callbacks and limits, see RunnerParts and DeviceMemory. To be set before there are runs.
  void on_training(std::function<void(std::shared_ptr<GatedRun>)> told) {
    parts_.on_training = std::move(told);
  }
  void on_failed_link(std::function<void(FailedLink)> told) {
    parts_.on_failed_link = std::move(told);
  }
  void on_starved(std::function<void(StarvedInput)> told) { parts_.on_starved = std::move(told); }
  void on_variables(DeviceMemory::OnVariables told) { memory_.on_variables(std::move(told)); }
  void set_input_patience(std::chrono::milliseconds patience) { parts_.input_patience = patience; }
  // Takes the faults of Runner.arm. Empty: the runner answers that call with unimplemented.
  std::function<void(std::vector<ArmedFault>, std::chrono::milliseconds)> arm;

  const RunnerConfig& config() const { return config_; }
  int threads() { return host_.threads(); }
  uint64_t memory_bytes() const { return memory_.limit(); }
  // The address to which peers on this machine bring their shared memory; "" if memory may not or
  // cannot be shared.
  const std::string& unix_address() const { return unix_address_; }

  RunTable& runs() { return runs_; }
  const RunTable& runs() const { return runs_; }
  JobData& data() { return data_; }

  // Takes a connection that the worker hands over.
  void arrived(Connection connection) { arrivals_.add(std::move(connection)); }
  // Ends all runs with this cause. New ones are refused.
  void stop(const Status& cause) { runs_.stop(cause); }

 private:
  JobRunner(RunnerConfig config, const Catalogue& catalogue, std::unique_ptr<shm::Waiter> waiter,
            TurnLog::News news, Logger log);
  void listen();

  const RunnerConfig config_;
  Reactor reactor_;
  const std::unique_ptr<shm::Waiter> waiter_;
  Arrivals arrivals_;
  std::unique_ptr<Listener> listener_;
  std::string unix_address_;
  DeviceHost host_;
  DeviceMemory memory_;
  std::mutex binding_;
  RunnerParts parts_;
  ControlThreads control_;
  ControlThreads::Strand job_strand_;  // where the variables are read and written
  RunTable runs_;
  JobData data_;
};

}  // namespace leat
