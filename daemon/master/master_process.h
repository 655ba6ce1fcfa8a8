// A master with the rest of its process: the status endpoint, the watchdog, and the hints that the
// process prints when it is ready. `leatd master` and `leatd dev` both run one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/master/master.h"
#include "daemon/process/lifetime.h"
#include "daemon/status/http_server.h"
#include "devices/base/log.h"
#include "transport/io/reactor.h"

namespace leat {

// Threads: one.
class MasterProcess {
 public:
  // `lifetime` outlives it.
  static Result<std::unique_ptr<MasterProcess>> start(const MasterConfig& config,
                                                      Lifetime& lifetime, const Logger& log);
  // Ends it as Master::stop() does, if that was not done.
  ~MasterProcess();

  Master& daemon() { return *daemon_; }
  ReadyAddresses addresses() const;
  // The command to type on another machine and the address to open in a browser, one line each.
  std::vector<std::string> hints() const;
  Status stop();

 private:
  MasterProcess(const MasterConfig& config, Lifetime& lifetime)
      : config_(config), lifetime_(lifetime) {}
  Status open_http(const Logger& log);
  void watch();

  const MasterConfig config_;
  Lifetime& lifetime_;
  std::unique_ptr<Master> daemon_;
  std::unique_ptr<Reactor> reactor_;  // null without a status endpoint
  std::unique_ptr<HttpServer> http_;
  std::vector<Registration> registrations_;
};

// `leatd master`. Makes the parts of one daemon, calls lifetime.ready() when they work, and returns
// when lifetime.stop_requested() and everything has ended, or with the error that kept it from
// going on. Leaves no thread, child or socket behind. Threads: the process's main one, with the
// signals of lifetime.h blocked; so they are on all threads that it starts.
Status run_master(const MasterConfig& config, Lifetime& lifetime, Logger log);

}  // namespace leat
