// `leatd dev`: a master and its workers in one process, and runners as a cluster has them. What
// they keep goes with them.
#include <algorithm>
#include <filesystem>

#include "daemon/leatd/daemons.h"
#include "daemon/master/master_process.h"
#include "daemon/temporary_folder.h"
#include "daemon/worker/worker_daemon.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"

namespace leat {
namespace {

constexpr auto kJoin = std::chrono::seconds(10);
constexpr auto kGrace = std::chrono::milliseconds(1'500);

MasterConfig master_config(const DevConfig& config, const std::string& folder) {
  MasterConfig master;
  master.listen = config.listen;
  master.http = config.http;
  master.state_dir = folder + "/master";
  master.chaos = true;
  return master;
}

WorkerConfig worker_config(const DevConfig& config, const std::string& folder,
                           const std::string& master, int64_t number) {
  WorkerConfig worker;
  worker.name = cat("worker-", number);
  worker.master = master;
  worker.http = "off";
  worker.data = "127.0.0.1:0";
  worker.threads = config.threads > 0 ? config.threads
                                      : std::max<int64_t>(1, cpu::usable_cores() / config.workers);
  worker.datasets = config.datasets;
  worker.state_dir = cat(folder, "/", worker.name);
  return worker;
}

Status wait_for_members(const std::vector<std::unique_ptr<WorkerDaemon>>& workers,
                        const Lifetime& lifetime) {
  const auto deadline = std::chrono::steady_clock::now() + kJoin;
  for (const auto& worker : workers) {
    while (!worker->status().ok()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return worker->status().while_doing("waiting for the workers to join");
      }
      if (lifetime.wait_for_stop(std::chrono::milliseconds(5))) return {};
    }
  }
  return {};
}

}  // namespace

Status run_dev(const DevConfig& config, Lifetime& lifetime, Logger log) {
  LEAT_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::make("leat-dev"));
  LEAT_ASSIGN_OR_RETURN(
      const auto master,
      MasterProcess::start(master_config(config, folder->path()), lifetime, log.named("master")));
  std::vector<std::unique_ptr<WorkerDaemon>> workers;
  const std::string address = master->addresses().listen;
  for (int64_t number = 0; number < config.workers; ++number) {
    const WorkerConfig worker = worker_config(config, folder->path(), address, number);
    LEAT_ASSIGN_OR_RETURN(auto started,
                          WorkerDaemon::start(worker, "/proc/self/exe", log.named(worker.name)));
    workers.push_back(std::move(started));
  }
  LEAT_RETURN_IF_ERROR(wait_for_members(workers, lifetime));
  for (const std::string& hint : master->hints()) log.info(hint);
  lifetime.ready(cat(workers.size(), workers.size() == 1 ? " worker" : " workers"),
                 master->addresses());
  lifetime.wait_for_stop();
  lifetime.stopping("the runners");
  for (const auto& worker : workers) worker->stop(kGrace);
  workers.clear();
  lifetime.stopping("the runs of jobs");
  return master->stop();
}

}  // namespace leat
