// The worker daemon: its parts, put together. A worker keeps nothing that it could not lose: all
// that it has in its state directory is `lock`, held while it runs, and a folder of each runner.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "daemon/process/daemon_config.h"
#include "daemon/process/lifetime.h"
#include "daemon/status/http_server.h"
#include "daemon/worker/data_port.h"
#include "daemon/worker/master_link.h"
#include "daemon/worker/runners.h"
#include "devices/base/log.h"
#include "transport/io/reactor.h"

namespace leat {

// Threads: any, one at a time.
class Worker {
 public:
  // Opens the data port and dials the master. `program` is the leatd that runners are made of.
  // failed_precondition if another worker has the state directory, or a data set is not there.
  // `on_given_up`: another worker has its name, and keeps it; see MasterLinkOptions.
  static Result<std::unique_ptr<Worker>> start(const WorkerConfig& config,
                                               const std::string& program, Logger log,
                                               std::function<void()> on_given_up = {});
  // As stop() with no grace, if it was not called.
  ~Worker();

  const std::string& data_address() const { return data_port_->address(); }
  // "" if it has none.
  std::string http_address() const { return http_ ? http_->address() : ""; }
  // Ok while it is a member of the cluster.
  Status status() const { return master_->status(); }
  Runners& runners() { return *runners_; }
  MasterLink& master() { return *master_; }
  // Has its jobs leave it between two steps. True when no runner is left, at the latest after
  // `patience`; false also if it is no member.
  bool drain(std::chrono::milliseconds patience);
  // Ends the runners, who have `grace`, tells the master, and leaves the cluster.
  void stop(std::chrono::milliseconds grace);

 private:
  Worker() = default;
  Status take_state(const std::string& directory, const Logger& log);
  Status open_http(const WorkerConfig& config, Logger log);

  Descriptor lock_;
  std::string runners_directory_;
  Reactor reactor_;
  std::unique_ptr<MasterLink> master_;
  std::unique_ptr<Runners> runners_;
  std::unique_ptr<DataPort> data_port_;
  std::unique_ptr<HttpServer> http_;
  bool stopped_ = false;
};

// `leatd worker`. Makes the parts of one daemon, calls lifetime.ready() when they work, and returns
// when lifetime.stop_requested() and everything has ended, or with the error that kept it from
// going on. Leaves no thread, child or socket behind. Threads: the process's main one, with the
// signals of lifetime.h blocked; so they are on all threads that it starts.
Status run_worker(const WorkerConfig& config, Lifetime& lifetime, Logger log);

}  // namespace leat
