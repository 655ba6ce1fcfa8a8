// A runner: the devices, links, runs and variables of one job on one machine, in a process of their
// own. What the control plane asks of it comes through wire_runner_service.h, what it tells goes
// through reporter.h.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/hosts/variable_snapshot.h"
#include "daemon/hosts/variables.h"
#include "daemon/runner/arrivals.h"
#include "daemon/runner/control_threads.h"
#include "daemon/runner/device_memory.h"
#include "daemon/runner/hosted_run.h"
#include "daemon/runner/runner_config.h"
#include "devices/base/log.h"
#include "ops/data/dataset.h"
#include "scheduler/runtime/device_host.h"
#include "transport/io/listener.h"
#include "transport/io/reactor.h"
#include "transport/shm/bell.h"

namespace leat {

// Threads: any. A `done` is called once, on one of its control threads or the caller's, and must
// not block; it is dropped uncalled if the runner ends before. Nothing here waits without a bound.
class JobRunner {
 public:
  using Done = std::function<void(const Status&)>;

  // `catalogue` outlives it; `news` is called from any thread and must not block.
  static Result<std::unique_ptr<JobRunner>> create(RunnerConfig config, const Catalogue& catalogue,
                                                   TurnLog::News news, Logger log);
  // stop(), and all is given back.
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  const RunnerConfig& config() const { return config_; }
  // See RunnerParts. Before there are runs.
  void on_training(std::function<void(std::shared_ptr<HostedRun>)> told) {
    parts_.on_training = std::move(told);
  }
  void on_failed_link(std::function<void(FailedLink)> told) {
    parts_.on_failed_link = std::move(told);
  }
  void on_starved(std::function<void(StarvedInput)> told) { parts_.on_starved = std::move(told); }
  // See DeviceMemory.
  void on_variables(DeviceMemory::OnVariables told) { memory_.on_variables(std::move(told)); }
  void set_input_patience(std::chrono::milliseconds patience) { parts_.input_patience = patience; }
  // Runner.arm; unimplemented where nobody takes them.
  std::function<void(std::vector<ArmedFault>, std::chrono::milliseconds)> arm;
  // In which it is.
  RunnerAssembly assembly() const;
  std::string device_name() const;
  int threads() { return worker_.threads(); }
  uint64_t memory_bytes() const { return memory_.limit(); }
  // "" if memory may not be shared, or cannot.
  const std::string& unix_address() const { return unix_address_; }

  // A connection that the worker hands over.
  void arrived(Connection connection) { arrivals_.add(std::move(connection)); }

  // --- Runs.
  // The run that a plan is to come for; made if it is new. failed_precondition if it is another
  // plan's.
  Result<std::shared_ptr<HostedRun>> expect(uint64_t run, uint32_t partition,
                                            const Sha256Digest& digest);
  Result<std::shared_ptr<HostedRun>> find(uint64_t run) const;
  std::vector<std::shared_ptr<HostedRun>> runs() const;
  // Ok also for a run that is not there (any more).
  void abort(uint64_t run, const Status& cause, Done done);
  void release(uint64_t run, Done done);

  // It goes on in this assembly: peers of it are let in, and runs are of it. Runs that are left are
  // ended and released first; the job's variables stay as they are. But a job with queues or the
  // like, which tell what to do next and are of no use after a failure, begins with nothing.
  // failed_precondition if it was in a later assembly already.
  void advance(const RunnerAssembly& to, Done done);

  // --- The job's state.
  // A safetensors file, when no step is in flight.
  void read_variables(std::function<void(Result<Bytes>)> done);
  void write_variables(Bytes file, Restore what, std::optional<uint64_t> step, Done done);
  // failed_precondition while there are runs.
  void held(std::function<void(Result<Held>)> done);
  // Copies these variables, when no step is in flight.
  void take_snapshot(int64_t step, std::vector<std::string> names, Done done);
  // The same, by this run, when it has done the steps below `step`: see interface Runner.
  Status take_snapshot_in_passing(uint64_t run, int64_t step, std::vector<std::string> names);
  // The copy as a part of a checkpoint: its bytes, or written and synced. Beside all else.
  void read_snapshot(int64_t step, std::function<void(Result<Bytes>)> done);
  void write_snapshot(int64_t step, PartPlace place,
                      std::function<void(Result<CheckpointPart>)> done);
  // `files.root` is a data set's name.
  void inspect_dataset(DatasetFiles files, int64_t classes,
                       std::function<void(Result<DatasetReport>)> done);

  // What the worker tells in its heartbeats.
  struct Pulse {
    uint64_t turns = 0;  // of all runs that there were
    uint64_t tiles = 0;  // of all that there are: it changes while anything is computed
    bool stepping = false;
    bool waits = false;  // all that step wait for peers
  };
  Pulse pulse() const;

  // Ends all runs with this cause. New ones are refused.
  void stop(const Status& cause);

 private:
  JobRunner(RunnerConfig config, const Catalogue& catalogue, std::unique_ptr<shm::Waiter> waiter,
            TurnLog::News news, Logger log);
  void listen();
  void become(const RunnerAssembly& assembly);
  Status settle() const;

  const RunnerConfig config_;
  const Logger log_;
  Reactor reactor_;
  const std::unique_ptr<shm::Waiter> waiter_;
  Arrivals arrivals_;
  std::unique_ptr<Listener> listener_;
  std::string unix_address_;
  DeviceHost worker_;
  DeviceMemory memory_;
  std::mutex binding_;
  RunnerParts parts_;

  mutable std::mutex mutex_;
  RunnerAssembly assembly_;
  uint64_t advancing_ = 0;  // to this assembly: no run is made
  std::map<uint64_t, std::shared_ptr<HostedRun>> runs_;
  uint64_t released_turns_ = 0;
  bool more_than_variables_ = false;  // some run had
  Status stopped_;
  VariableSnapshot snapshot_;
  ControlThreads background_;  // for what may be slow: see background.h
  ControlThreads control_;     // the strands use the rest
  ControlThreads::Strand job_strand_;
};

}  // namespace leat
