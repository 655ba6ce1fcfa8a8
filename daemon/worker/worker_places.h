// The worker daemon: a worker of the cluster for each place that the machine has for a runner. A
// machine without GPUs is one place; one with GPUs has a place for each of them, or several for
// each if the configuration says so. The places divide the threads of the machine.
//
// A place is a worker of its own for the master, with a name, heartbeats, a data port and a state
// folder, so that jobs lease places, and one that is drained or stuck leaves the others alone. They
// share the process, its log and its HTTP port.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/process/daemon_config.h"
#include "daemon/process/lifetime.h"
#include "daemon/status/http_server.h"
#include "daemon/worker/gpus.h"
#include "daemon/worker/worker.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

// Threads: any, one at a time.
class WorkerPlaces {
 public:
  // Looks at the GPUs and starts the workers: see Worker::start(), also for `on_given_up`, which
  // may be called once for each place. GPUs that cannot be used are logged, and the machine is one
  // place without them.
  static Result<std::unique_ptr<WorkerPlaces>> start(const WorkerConfig& config,
                                                     const std::string& program, Logger log,
                                                     const std::function<void()>& on_given_up = {});
  // Calls stop() with no grace, if it was not called.
  ~WorkerPlaces();

  // At least one.
  const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }
  // "" if there is no HTTP port.
  std::string http_address() const { return http_ ? http_->address() : ""; }
  // Ok while all are members of the cluster; otherwise the reason of the first one that is not.
  Status status() const;
  // Why one of them has given up its name; ok if none has.
  Status gave_up() const;
  size_t runners() const;
  // As the functions of Worker, for all at the same time.
  bool drain(std::chrono::milliseconds patience);
  void stop(std::chrono::milliseconds grace);

 private:
  WorkerPlaces() = default;
  Status open_http(const WorkerConfig& config, Logger log);

  std::vector<std::unique_ptr<Worker>> workers_;
  Reactor reactor_;  // of the HTTP port
  std::unique_ptr<HttpServer> http_;
};

// A place of a machine: its worker's configuration, and the GPU that its runners may open.
struct WorkerPlace {
  WorkerConfig config;
  std::optional<Gpu> gpu;
};

// The places of a machine with these GPUs. `cores`: those that this process may use. Place i of
// several is called NAME.i, has the folder state_dir/i, and its data port is i above the configured
// one. A pure function.
std::vector<WorkerPlace> divide_machine(const WorkerConfig& config, const std::vector<Gpu>& gpus,
                                        int cores);

// Runs `leatd worker`: starts the daemon, calls lifetime.ready() when it works, and returns when
// lifetime.stop_requested() and everything has ended, or with the error that made it end. No
// thread, child process or socket is left after that. Threads: the process's main thread, with the
// signals of lifetime.h blocked, so that all threads that it starts inherit that.
Status run_worker(const WorkerConfig& config, Lifetime& lifetime, Logger log);

}  // namespace leat
