// A worker of a cluster, which owns its parts; worker_places.h has the daemon. It has no state that
// must survive: its state directory contains only `lock`, which it holds while it runs, and a
// folder for each runner.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/process/daemon_config.h"
#include "daemon/worker/data_port.h"
#include "daemon/worker/gpus.h"
#include "daemon/worker/master_link.h"
#include "daemon/worker/runner_confinement.h"
#include "daemon/worker/runners.h"
#include "devices/base/log.h"
#include "transport/io/reactor.h"

namespace leat {

// The parts and their order of life: the rpc loop and link to the master, then the runners, whose
// news go through the link, then the data port, which passes connections to the runners.
// Threads: any, one at a time.
class Worker {
 public:
  // Opens the data port and starts to connect to the master. `program` is the path of the leatd
  // that runners execute. failed_precondition if another worker has the state directory, or a data
  // set does not exist. `on_given_up` is called if another worker has its name and keeps it; see
  // MasterLinkOptions. Also fails with the errors of RunnerConfinement::open(), and if the state
  // directory's path is too long for sockets below it (invalid_argument), or if a port cannot be
  // bound. Returns before the worker is registered. `on_given_up` runs on the thread "master".
  // `gpu`: the one that its runners may open.
  static Result<std::unique_ptr<Worker>> start(const WorkerConfig& config,
                                               const std::string& program, Logger log,
                                               std::function<void()> on_given_up = {},
                                               const std::optional<Gpu>& gpu = {});
  // Calls stop() with no grace, if it was not called.
  ~Worker();

  const std::string& name() const { return name_; }
  const std::string& data_address() const { return data_port_->address(); }
  // Ok while it is a member of the cluster.
  Status status() const { return master_->status(); }
  Runners& runners() { return *runners_; }
  MasterLink& master() { return *master_; }
  // Has jobs leave this worker between two steps. Returns true when no runner is left, false after
  // `patience`, and at once if it is not a member.
  bool drain(std::chrono::milliseconds patience);
  // Ends the runners, which have `grace`, tells the master, and leaves the cluster. Blocks. May be
  // called again.
  void stop(std::chrono::milliseconds grace);

 private:
  Worker() = default;
  // Locks the directory, removes the files of a worker that was killed, and finds out how runners
  // can be confined.
  Status take_state(const WorkerConfig& config, const Logger& log);

  // The kernel drops the lock when the process ends in any way.
  Descriptor lock_;
  std::string name_;
  std::string runners_directory_;
  std::unique_ptr<RunnerConfinement> confinement_;  // of the runners
  Reactor reactor_;
  std::unique_ptr<MasterLink> master_;
  std::unique_ptr<Runners> runners_;
  std::unique_ptr<DataPort> data_port_;
  bool stopped_ = false;
};

}  // namespace leat
