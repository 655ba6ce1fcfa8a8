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
#include "daemon/wire/runner_info.h"
#include "devices/base/log.h"
#include "scheduler/runtime/device_host.h"
#include "transport/io/listener.h"
#include "transport/io/reactor.h"
#include "transport/shm/bell.h"

namespace leat {

// Threads: any. No call waits without a deadline.
class JobRunner {
 public:
  // `catalogue` outlives it; `news` is called from any thread and must not block. Starts the
  // threads of the data plane and, if it may share memory, listens on a unix socket in its
  // directory. A socket that cannot be opened is only logged: peers then use TCP. Errors are those
  // of shm::Waiter::create().
  // `accelerators`: its devices besides the CPU; the catalogue has their kernels.
  static Result<std::unique_ptr<JobRunner>> create(
      RunnerConfig config, const Catalogue& catalogue, TurnLog::News news, Logger log,
      std::vector<std::unique_ptr<Device>> accelerators = {});
  // Stops, ends its threads, and frees everything.
  // REQUIRES: no other thread uses the runner or posts work to it.
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Callbacks and limits, see RunnerParts and DeviceMemory. To be set before there are runs. The
  // callback of on_training() runs before the first step of each run that trains, and may set its
  // gate.
  void on_training(std::function<void(std::shared_ptr<GatedRun>)> told) {
    parts_.on_training = std::move(told);
  }
  // The callback may block for a second, since it runs on the strand of the run.
  void on_failed_link(std::function<void(FailedLink)> told) {
    parts_.on_failed_link = std::move(told);
  }
  void on_starved(std::function<void(StarvedInput)> told) { parts_.on_starved = std::move(told); }
  void on_failed_device(std::function<void(const Status&)> told) {
    parts_.on_failed_device = std::move(told);
  }
  // The place of the files that the job's graphs save. Without one the runner refuses such graphs.
  void save_files_at(std::shared_ptr<SavedFiles> place) { parts_.saved_files = std::move(place); }
  // The callback runs under the lock of DeviceMemory, so it must not reserve memory.
  void on_variables(DeviceMemory::OnVariables told) { memory_.on_variables(std::move(told)); }
  // How long a file system may take to answer a read before the run is failed.
  void set_input_patience(std::chrono::milliseconds patience) { parts_.input_patience = patience; }
  // Takes the faults of Runner.arm. Empty: the runner answers that call with unimplemented.
  std::function<void(std::vector<ArmedFault>, std::chrono::milliseconds)> arm;

  const RunnerConfig& config() const { return config_; }
  DeviceHost& host() { return host_; }
  // The number of compute threads.
  int threads() { return host_.threads(); }
  // The bytes that runs may reserve together: the configured limit, or less if the machine has
  // less.
  uint64_t memory_bytes() const { return memory_.limit(); }
  // The facts of its devices besides the CPU.
  std::vector<RunnerDevice> accelerators();
  // The address to which peers on this machine bring their shared memory; "" if memory may not or
  // cannot be shared.
  const std::string& unix_address() const { return unix_address_; }

  // The parts live as long as the runner.
  RunTable& runs() { return runs_; }
  const RunTable& runs() const { return runs_; }
  JobData& data() { return data_; }

  // Takes a connection that the worker hands over. The connection has proved the key of the
  // assembly. It waits for its run; after 30 s it gives way to later connections. Does not block.
  void arrived(Connection connection) { arrivals_.add(std::move(connection)); }
  // Ends all runs with this cause. New ones are refused. Returns before the runs have ended; the
  // destructor waits for them.
  void stop(const Status& cause) { runs_.stop(cause); }

 private:
  JobRunner(RunnerConfig config, const Catalogue& catalogue, std::unique_ptr<shm::Waiter> waiter,
            TurnLog::News news, Logger log, std::vector<std::unique_ptr<Device>> accelerators);
  // Opens the unix socket for peers on this machine.
  void listen();
  // The kinds that the device has and the worker's configuration allows.
  std::vector<WireKind> wires_of(Device& device);

  const RunnerConfig config_;
  // The order of the members is the order of their lives: runs use all that stands above them.
  Reactor reactor_;
  const std::unique_ptr<shm::Waiter> waiter_;
  Arrivals arrivals_;
  std::unique_ptr<Listener> listener_;
  std::string unix_address_;
  DeviceHost host_;
  DeviceMemory memory_;
  // See RunnerParts::binding.
  std::mutex binding_;
  RunnerParts parts_;
  ControlThreads control_;
  // The variables are read and written on it, in the order of the calls.
  ControlThreads::Strand job_strand_;
  RunTable runs_;
  JobData data_;
};

}  // namespace leat
