// `leatd dev`: a master and its workers in one process; runners are processes, like on a cluster.
// Their files are deleted at the end.
//
// Unless the config sets the number of workers, it starts with one worker and adds more when a job
// asks for them. A job's runners divide the threads between them, so that more workers do not slow
// a job down.
#include "daemon/leatd/run_dev.h"

#include <algorithm>
#include <filesystem>

#include "daemon/base/temporary_folder.h"
#include "daemon/master/master_process.h"
#include "daemon/process/config_fields.h"
#include "daemon/worker/worker.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"

namespace leat {
namespace {

constexpr auto kJoin = std::chrono::seconds(10);
constexpr auto kLookAtGpus = std::chrono::seconds(20);
constexpr auto kGrace = std::chrono::milliseconds(1'500);
constexpr auto kLook = std::chrono::milliseconds(100);  // between two looks at the jobs

// Without local_users the master accepts connections of its own user and root alone, so its jobs
// may do what that user may.
MasterConfig master_config(const DevConfig& config, const std::string& folder) {
  MasterConfig master;
  master.listen = config.listen;
  master.http = config.http;
  master.state_dir = folder + "/master";
  master.chaos = true;
  // Without a number of threads, the runners of each job divide all cores.
  if (config.threads == 0) master.shared_threads = cpu::usable_cores();
  return master;
}

WorkerConfig worker_config(const DevConfig& config, const std::string& folder,
                           const std::string& master, int64_t number) {
  WorkerConfig worker;
  worker.name = cat("worker-", number);
  worker.master = master;
  worker.http = "off";
  worker.data = "127.0.0.1:0";
  worker.threads =
      config.threads > 0
          ? config.threads
          : std::max<int64_t>(1, cpu::usable_cores() / std::max<int64_t>(1, config.workers));
  worker.datasets = config.datasets;
  worker.local_paths = true;
  worker.state_dir = cat(folder, "/", worker.name);
  return worker;
}

using Workers = std::vector<std::unique_ptr<Worker>>;

// The status line of the daemon.
std::string count_text(const Workers& workers) {
  return cat(workers.size(), workers.size() == 1 ? " worker" : " workers");
}

// Returns the largest number of workers that a job asks for.
int64_t wanted_by(const std::vector<JobView>& jobs) {
  int64_t wanted = 1;
  for (const JobView& job : jobs) {
    if (!has_ended(job.condition.state)) wanted = std::max<int64_t>(wanted, job.num_workers);
  }
  return std::min(wanted, kMaxDevWorkers);
}

// Waits until all workers have joined their master, or until a stop is requested.
Status wait_for_members(const Workers& workers, const Lifetime& lifetime) {
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
  // The workers share the machine's GPUs, if it has any.
  std::vector<Gpu> gpus;
  if (auto found = find_gpus("/proc/self/exe", kLookAtGpus); found.ok())
    gpus = std::move(*found);
  else
    log.warning("offers no GPU: ", found.status().message());
  Workers workers;
  const std::string address = master->addresses().listen;
  // Starts workers until there are so many. Workers are never taken away, because a job may use
  // them.
  const auto have = [&](int64_t count) -> Status {
    for (auto number = static_cast<int64_t>(workers.size()); number < count; ++number) {
      const WorkerConfig worker = worker_config(config, folder->path(), address, number);
      std::optional<Gpu> gpu;
      if (!gpus.empty()) gpu = gpus[static_cast<size_t>(number) % gpus.size()];
      LEAT_ASSIGN_OR_RETURN(
          auto started, Worker::start(worker, "/proc/self/exe", log.named(worker.name), {}, gpu));
      workers.push_back(std::move(started));
    }
    return {};
  };
  LEAT_RETURN_IF_ERROR(have(std::max<int64_t>(1, config.workers)));
  LEAT_RETURN_IF_ERROR(wait_for_members(workers, lifetime));
  for (const std::string& hint : master->hints()) log.info(hint);
  lifetime.ready(count_text(workers), master->addresses());
  while (config.workers == 0 && !lifetime.wait_for_stop(kLook)) {
    const int64_t wanted = wanted_by(master->daemon().status().jobs());
    if (wanted <= static_cast<int64_t>(workers.size())) continue;
    const Status more = have(wanted);
    if (!more.ok()) log.warning("no more workers: ", more.message());
    lifetime.status(count_text(workers));
    // The workers that there are go on. More attempts would fail for the same reason.
    if (!more.ok()) break;
  }
  lifetime.wait_for_stop();
  lifetime.stopping("the runners");
  // The workers stop first, so their runners end while the master still runs.
  for (const auto& worker : workers) worker->stop(kGrace);
  workers.clear();
  lifetime.stopping("the runs of jobs");
  return master->stop();
}

}  // namespace leat
