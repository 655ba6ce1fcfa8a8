// The workers and runners that are connected to the master. Their calls become events of the
// cluster's state, and the decisions of the table of jobs become calls to them.
//
// For the table of jobs a runner has ended when its worker reports that the process has ended or
// was stopped. If the runner's connection is lost without such a report, the worker is asked to
// stop it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/jobs/events.h"
#include "daemon/jobs/worker_limits.h"
#include "daemon/master/cluster_state.h"
#include "daemon/master/job_logs.h"
#include "daemon/remote/remote_host.h"
#include "daemon/wire/process_view.h"
#include "devices/base/log.h"
#include "transport/rpc/loop.h"

namespace leat {

class RpcServer;
class SavedFilesOfJobs;

struct WorkforceOptions {
  std::string cluster_id;  // 32 hexadecimal digits
  uint64_t generation = 0;
  std::string heart_address;
  std::chrono::milliseconds heartbeat{250};
  std::chrono::milliseconds call_deadline{10'000};
  std::chrono::milliseconds stop_deadline{5'000};  // beyond the runner's grace
  // The time in which a worker reports the end of a runner whose connection is gone.
  std::chrono::milliseconds exit_deadline{2'000};
  uint32_t shared_threads = 0;  // as MasterConfig has it
  // The secret of the cluster, from which runners' credentials are made; empty: none.
  std::function<std::string()> secret = [] { return std::string(); };
  // The pairs of a worker and a job whose runner it had before this master started, the newest
  // last: lines of such a runner may still come.
  std::vector<std::pair<std::string, std::string>> had;
  WorkerLimits limits;  // of what a worker may claim
  bool chaos = false;   // likewise: faults of jobs may be of their workers, too
  // Called when a worker has registered, or was refused. `from`: the address of its connection.
  std::function<void(const std::string& worker, const std::string& from, const Status& outcome)>
      on_registered;
  // Called when lines of a worker were refused that are of a job which it never had, as
  // on_registered.
  std::function<void(const std::string& worker, const std::string& from, const Status& why)>
      on_refused_lines;
  Logger log;
};

// Threads: any. No call waits for a peer.
class Workforce {
 public:
  // All arguments outlive it.
  Workforce(RpcLoop& loop, ClusterState& state, JobLogs& logs, SavedFilesOfJobs& saved,
            WorkforceOptions options);
  // REQUIRES: the server is destroyed.
  ~Workforce();

  // Sets the server that ends connections; null: none.
  void use(RpcServer* server);

  void start_runners(StartRunners action);
  void stop_runners(StopRunners action);
  // The worker is not a member any more: closes its connection, and drops its runners.
  void worker_lost(const WorkerRef& worker, const std::string& reason);
  // Ends the assembly's runs, and all calls to its runners.
  void end_assembly(const std::string& job, uint64_t assembly, const std::string& reason);
  // Ends all runs, and all calls to runners, before it returns.
  void end_all(const std::string& reason);
  // Ends the job's log when its runners are stopped.
  void end_log(const std::string& job);
  // The runners of an assembly, by task. unavailable if one of `count` is gone. Waits for the loop.
  Result<std::vector<std::shared_ptr<RemoteHost>>> runners(const std::string& job,
                                                           uint64_t assembly, size_t count);
  // Returns the runner of one task. The rest is as for runners().
  Result<std::shared_ptr<RemoteHost>> runner(const std::string& job, uint64_t assembly,
                                             uint32_t task);

  // Asks a worker for the process of the job's runner there. `done` is called once, on any thread:
  // with deadline_exceeded if the worker does not answer in time. Does not block.
  void look(const WorkerRef& worker, const std::string& job, uint64_t assembly,
            std::chrono::milliseconds deadline, std::function<void(Result<ProcessView>)> done);

  class Inside;
  const std::shared_ptr<Inside>& inside() const { return inside_; }

 private:
  template <typename F>
  void post(F task);

  RpcLoop& loop_;
  const std::shared_ptr<Inside> inside_;  // its objects are made and destroyed on the loop
};

}  // namespace leat
