#include "daemon/master/master_process.h"

#include <unistd.h>

#include "daemon/master/audited_jobs.h"
#include "daemon/master/http_files.h"
#include "daemon/master/http_steps.h"
#include "daemon/master/http_writes.h"
#include "daemon/status/status_routes.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Returns the name of this machine, or "" if the kernel does not give it.
std::string this_host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

bool is_any_address(const std::string& address) {
  return address.starts_with("0.0.0.0:") || address.starts_with("[::]:");
}

// The address that other machines dial: "any address" is replaced by the name of this host.
std::string dialled(const std::string& address) {
  return is_any_address(address) ? this_host() + address.substr(address.rfind(':')) : address;
}

}  // namespace

Result<std::unique_ptr<MasterProcess>> MasterProcess::start(const MasterConfig& config,
                                                            Lifetime& lifetime, const Logger& log) {
  std::unique_ptr<MasterProcess> process(new MasterProcess(config, lifetime));
  LEAT_ASSIGN_OR_RETURN(process->daemon_, Master::start(config, {}, log));
  if (config.http != "off") LEAT_RETURN_IF_ERROR(process->open_http(log.named("http")));
  // This comes last, because the signs of life come from loops that must exist.
  process->watch();
  return process;
}

MasterProcess::~MasterProcess() { (void)stop(); }

Status MasterProcess::open_http(const Logger& log) {
  HttpOptions options;
  options.policy.token = config_.security.http_token;
  options.policy.write_token = config_.http_write_token;
  if (const std::string host = this_host(); !host.empty()) options.policy.names = {host};
  options.log = log;
  LEAT_ASSIGN_OR_RETURN(options.tls, open_tls(config_.security, log));
  options.on_refused = [this](const std::string& client, const Status& why) {
    daemon_->audited().refused(client, why);
  };
  // The status page has a thread of its own, so that it answers while the master's loops are busy.
  reactor_ = std::make_unique<Reactor>();
  std::vector<HttpRoute> routes = write_routes(daemon_->audited(), daemon_->status());
  for (auto* of : {step_routes, file_routes}) {
    for (HttpRoute& each : of(*daemon_, daemon_->status())) routes.push_back(std::move(each));
  }
  LEAT_ASSIGN_OR_RETURN(http_, open_status_server(*reactor_, config_.http, daemon_->status(),
                                                  std::move(options), std::move(routes)));
  daemon_->status().set_http_address(http_->address());
  return {};
}

void MasterProcess::watch() {
  // The watchdog asks each loop for a sign of life; a loop that hangs does not run the beat.
  const auto watch = [&](std::string name, void (Master::*loop)(std::function<void()>)) {
    registrations_.push_back(lifetime_.watch(std::move(name), [this, loop](LifeSign sign) {
      (daemon_.get()->*loop)([sign] { sign.beat(); });
    }));
  };
  watch("rpc", &Master::beat_rpc);
  watch("heart", &Master::beat_hearts);
  watch("jobs", &Master::beat_jobs);
  watch("journal", &Master::beat_journal);
  registrations_.push_back(lifetime_.on_dump([this] { return daemon_->status().dump(); }));
}

ReadyAddresses MasterProcess::addresses() const {
  ReadyAddresses addresses;
  addresses.listen = daemon_->address();
  if (http_ != nullptr) addresses.http = http_->address();
  return addresses;
}

std::vector<std::string> MasterProcess::hints() const {
  std::string join =
      cat("a worker joins with: leatd worker --master ", dialled(daemon_->address()));
  // A cluster's name is part of the command only if it is not the default one. The secret itself
  // is never shown.
  if (config_.cluster != MasterConfig().cluster) join += " --set cluster=" + config_.cluster;
  if (config_.security.certificates) {
    join += " --certificate-file FILE";
  } else if (!config_.security.secret_file.empty()) {
    join += " --secret-file FILE";
  }
  std::vector<std::string> hints{std::move(join)};
  if (http_ != nullptr)
    hints.push_back(cat("status page: http://", dialled(http_->address()), "/"));
  return hints;
}

// The order is that of use: the watchdog asks the loops, and the status page asks the master.
Status MasterProcess::stop() {
  registrations_.clear();  // before the loops that they ask
  http_.reset();
  reactor_.reset();
  return daemon_ != nullptr ? daemon_->stop() : Status();
}

Status run_master(const MasterConfig& config, Lifetime& lifetime, Logger log) {
  LEAT_ASSIGN_OR_RETURN(const auto process, MasterProcess::start(config, lifetime, log));
  for (const std::string& hint : process->hints()) log.info(hint);
  lifetime.ready("ready", process->addresses());
  lifetime.wait_for_stop();
  lifetime.stopping("the runs of jobs");
  return process->stop();
}

}  // namespace leat
