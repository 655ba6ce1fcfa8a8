// A master and what a process has around it: the status endpoint, the watchdog, and what it says
// when it is there. `leatd master` and `leatd dev` both are one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/leatd/lifetime.h"
#include "daemon/master/master_daemon.h"
#include "daemon/status/http_server.h"
#include "transport/io/reactor.h"

namespace leat {

// Threads: one.
class MasterProcess {
 public:
  // `lifetime` outlives it.
  static Result<std::unique_ptr<MasterProcess>> start(const MasterConfig& config,
                                                      Lifetime& lifetime, const Logger& log);
  // Ends it as MasterDaemon::stop() does, if that was not done.
  ~MasterProcess();

  MasterDaemon& daemon() { return *daemon_; }
  ReadyAddresses addresses() const;
  // What to type on another machine, and what to open in a browser, one line each.
  std::vector<std::string> hints() const;
  Status stop();

 private:
  MasterProcess(const MasterConfig& config, Lifetime& lifetime)
      : config_(config), lifetime_(lifetime) {}
  Status open_http(const Logger& log);
  void watch();

  const MasterConfig config_;
  Lifetime& lifetime_;
  std::unique_ptr<MasterDaemon> daemon_;
  std::unique_ptr<Reactor> reactor_;  // null without a status endpoint
  std::unique_ptr<HttpServer> http_;
  std::vector<Registration> registrations_;
};

}  // namespace leat
