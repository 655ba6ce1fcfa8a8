// The worker daemon: its parts, put together. A worker keeps nothing that it could not lose: all
// that it has in its state directory is `lock`, held while it runs, and a folder of each runner.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "daemon/config/daemon_config.h"
#include "daemon/status/http_server.h"
#include "daemon/worker/data_port.h"
#include "daemon/worker/master_link.h"
#include "daemon/worker/runners.h"
#include "devices/base/log.h"
#include "transport/io/reactor.h"

namespace leat {

// Threads: any, one at a time.
class WorkerDaemon {
 public:
  // Opens the data port and dials the master. `program` is the leatd that runners are made of.
  // failed_precondition if another worker has the state directory, or a data set is not there.
  // `on_given_up`: another worker has its name, and keeps it; see MasterLinkOptions.
  static Result<std::unique_ptr<WorkerDaemon>> start(const WorkerConfig& config,
                                                     const std::string& program, Logger log,
                                                     std::function<void()> on_given_up = {});
  // As stop() with no grace, if it was not called.
  ~WorkerDaemon();

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
  WorkerDaemon() = default;
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

}  // namespace leat
