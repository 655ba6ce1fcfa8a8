// The runners of a worker: child processes, each with the device memory, sockets and executors of
// one job. Runners starts them, reads their output, and ends them. When one has ended, its
// directory and sockets are removed.
//
// A runner is `leatd runner` with three descriptors: 1 and 2 are a pipe to this process, whose
// lines are the job's log, and 3 is a unix socket (see RunnerBoot in daemon/wire/cluster.capnp). If
// this process ends, the kernel kills the runner, and its socket closes. A runner that has sent no
// pulse for 2.5 s is killed, because a stopped process cannot be detected in another way.
//
// One thread, "runners", does all work: it forks (a child dies with the thread that started it),
// and polls pipes, sockets and pidfds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/runner_end.h"
#include "daemon/jobs/worker_usage.h"
#include "daemon/process/daemon_config.h"
#include "daemon/wire/process_view.h"
#include "daemon/wire/runner_order.h"
#include "devices/base/log.h"
#include "devices/base/status.h"
#include "devices/core/device_wire.h"
#include "transport/io/identity.h"
#include "transport/link_counters.h"

namespace leat {

// The settings that all runners of this worker get.
class RunnerConfinement;

struct RunnerSurroundings {
  std::string program;    // the absolute path of the running leatd
  std::string directory;  // the parent of the runners' directories, which only this worker uses
  std::string node;
  std::string master;
  std::string cluster;
  Seal seal = Seal::beyond_loopback;
  std::array<uint8_t, 16> cluster_id{};
  // Compute threads of a runner whose order does not contain a number.
  uint32_t threads = 1;
  // In bytes, of each runner; 0: no limit.
  uint64_t memory_limit = 0;
  // Variables that the runner's environment has besides this process's: "CUDA_VISIBLE_DEVICES=1".
  std::vector<std::string> environment;
  std::map<std::string, std::string> datasets;
  // "local", "shm", "tcp".
  std::vector<std::string> transports;
  std::vector<WireKind> gpu_wires;  // that its runners may use
  std::string log_level;
  RunnerLimits limits;
  // Decides about their confinement, and about the parent of their directories in place of
  // `directory`; null: they are not confined. Outlives the runners.
  RunnerConfinement* confinement = nullptr;
  std::chrono::milliseconds rejoin_within{0};  // how long a runner looks for a lost master
};

// Callbacks with the output and the end of a runner. They run on the thread "runners", and must not
// block.
struct RunnerNews {
  std::function<void(const std::string& job, uint64_t assembly, std::vector<std::string> lines)>
      wrote;
  // Called after the last output.
  std::function<void(const std::string& job, uint64_t assembly, const RunnerEnd& end)> exited;
};

// The progress of all runners together.
struct RunnersPulse {
  // The turns that all runners have finished since the worker started. Never falls.
  uint64_t progress = 0;
  bool stepping = false;  // at least one runner is in a step
  // At least one runner is in a step, and all that are wait for peers.
  bool waits = false;
  bool quiet = false;  // a runner has sent no pulse for half a second
  // Changes while runners compute, also within a step that takes long.
  uint64_t work = 0;
  LinkCounters traffic;  // of all runners since the worker started
  WorkerUsage usage;     // of the worker's process and all runners, at most half a second old
};

// The work of one runner, and the resources that it uses.
struct RunnerWork {
  std::string job;
  uint64_t turns = 0;  // finished
  LinkCounters traffic;
  WorkerUsage usage;
};

// Threads: any. Each `done` is called once, on the thread "runners", and must not block. Worker
// owns it. Calls post to the thread and return; only the members that say so block.
//
//   auto runners = Runners::create(news, log);
//   (*runners)->start(order, surroundings, [](const Status& started) { ... });
//   (*runners)->stop(order.job, order.assembly, 10s, [](const Status&) { ... });
class Runners {
 public:
  using Done = std::function<void(const Status&)>;

  // Starts the thread.
  static Result<std::unique_ptr<Runners>> create(RunnerNews news, Logger log);
  // Kills all runners, and returns when they have ended.
  ~Runners();
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;

  // Starts a runner. Ok when its process runs, or if a runner of this job and assembly already
  // exists; resource_exhausted beyond RunnerLimits::max_runners; otherwise the errors of
  // RunnerHandle::start().
  void start(RunnerOrder order, RunnerSurroundings surroundings, Done done);
  // Moves the job's runner from an earlier assembly to that of the order. Peers must then prove the
  // new key, and stop() needs the new assembly; the rest of the order is ignored, except for the
  // task. failed_precondition if there is no such runner, or it is being ended.
  void advance(RunnerOrder order, Done done);
  // Asks the job's runner to end, and kills it after `grace`. The runner may be of this assembly or
  // an earlier one, but not of a later one. Ok when it has ended, or if there is none.
  void stop(const std::string& job, uint64_t assembly, std::chrono::milliseconds grace, Done done);
  // Blocks until there is no runner, or until the deadline. Returns true if there is none. Does not
  // ask the runners to end.
  bool wait_until_none(std::chrono::steady_clock::time_point deadline);
  // Ends all runners, and returns when they have ended, or 10 s after `grace`.
  void stop_all(std::chrono::milliseconds grace);
  // Calls `done` with the process of the job's runner; failed_precondition if there is none.
  void look(const std::string& job, uint64_t assembly,
            std::function<void(Result<ProcessView>)> done);
  // Includes runners that are being ended.
  size_t size() const;
  // Returns the orders of all runners, including those that are being ended, with the assemblies
  // that they have advanced to.
  std::vector<RunnerOrder> orders() const;

  // The facts that a peer must prove before it is connected to a runner.
  struct Door {
    std::array<uint8_t, 16> cluster_id{};
    uint64_t assembly = 0;
    RunKey key{};
  };
  // Returns the door of the runner with that incarnation; nullopt if there is none.
  std::optional<Door> door(uint64_t incarnation) const;
  // Passes an authenticated connection to its runner. `unavailable` if the runner has ended or
  // closed its socket; the connection is dropped on any error. Does not block: a socket that is
  // full counts as an error.
  Status give(Connection connection);

  // Returns the progress at the last look of the thread.
  RunnersPulse pulse() const;
  // Returns what each runner had done by then, those that are being ended too.
  std::vector<RunnerWork> works() const;

 private:
  class Core;
  explicit Runners(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace leat
