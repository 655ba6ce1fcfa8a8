// The inside of the workforce, on the rpc thread, and the service that workers and runners call.
// Includes Cap'n Proto: for .cc files.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "daemon/master/wire_runner_table.h"
#include "daemon/master/workforce.h"
#include "daemon/wire/cluster.capnp.h"
#include "transport/rpc/hello.h"

namespace leat {

// The parts of the master that a workforce uses; they outlive it.
struct WorkforceParts {
  RpcLoop& loop;
  ClusterState& state;
  JobLogs& logs;
  SavedFilesOfJobs& saved;
  WorkforceOptions options;
};

// A runner's words about what keeps it from its work; job and worker are filled in.
using RunnerTrouble = std::variant<LinkFailed, InputStarved, DeviceFailed>;

// Threads: the loop's.
class Workforce::Inside final : public std::enable_shared_from_this<Inside> {
 public:
  explicit Inside(WorkforceParts parts) : parts_(std::move(parts)) {
    for (const auto& [worker, job] : parts_.options.had) runners_.note(worker, job);
  }

  const WorkforceParts& parts() const { return parts_; }
  void use(RpcServer* server) { server_ = server; }
  // Drops all objects that live on the loop.
  void clear(const std::string& reason);

  void start(const StartRunners& action);
  void stop(const StopRunners& action);
  void worker_lost(const WorkerRef& worker, const std::string& reason);
  void end_log(const std::string& job);
  kj::Promise<Result<ProcessView>> look(const WorkerRef& worker, const std::string& job,
                                        uint64_t assembly);
  RunnerTable& runners() { return runners_; }

  // The service calls the following functions. The connection of a worker is known before the
  // worker is a member, and the membership may refuse it afterwards. `tokens`: of the runners that
  // the worker holds.
  Status worker_connects(const WorkerInfo& info, const std::vector<RunnerToken>& tokens,
                         wire::Worker::Client worker, uint64_t connection);
  void worker_refused(const WorkerRef& worker, uint64_t connection);
  void worker_hangs_up(const WorkerRef& worker, uint64_t connection);
  Status runner_connects(const RunnerPlace& place, const RunnerToken& token, RunnerFacts facts,
                         wire::Runner::Client runner, uint64_t connection);
  void runner_hangs_up(uint64_t connection);
  // The runner with that connection; null while it is on its way to another assembly.
  // failed_precondition if there is none.
  Result<RemoteHost*> runner_of(uint64_t connection);
  // Hands on an event of the assembly of the runner with that connection.
  Status hand_on(uint64_t connection, RunnerTrouble trouble);
  void runner_exited(const WorkerRef& worker, const std::string& job, uint64_t assembly,
                     const RunnerEnd& end);

 private:
  using Slot = RunnerTable::Slot;
  struct Connected {
    WorkerInfo info;
    wire::Worker::Client worker;
    uint64_t connection = 0;
  };

  // `threads` of the runner; 0: as many as its worker is configured to give.
  void start(const RunnerPlace& place, const WorkerRef& worker, const RunnerOrder& order);
  // Moves a connected runner to the place's assembly: tells its worker first, then the runner.
  void advance(const RunnerPlace& to, const WorkerRef& worker, const RunnerToken& key);
  void tell_worker(const RunnerPlace& to, const Slot& slot, const RunnerToken& key);
  void tell_runner(const RunnerPlace& to, Slot& slot, const RunnerToken& key);
  void has_advanced(const RunnerPlace& to, Slot& slot);
  // Calls `then` with the slot if the call succeeded and the slot is still that of the connection.
  void after_advance(const RunnerPlace& to, uint64_t connection, const Status& status,
                     const std::function<void(Slot&)>& then);
  void stop(const WorkerRef& worker, const std::string& job, uint64_t assembly,
            std::chrono::milliseconds grace, const std::string& how);
  void stopped(const WorkerRef& worker, const std::string& job, uint64_t assembly,
               const std::string& how, const Status& status);
  void end_log_if_stopped(const std::string& job);
  // Runs `task` later on the loop, unless this object is gone by then.
  void after(std::chrono::milliseconds delay, std::function<void()> task);
  // Calls `done` with the result of a call, unless this object is gone by then.
  void await(kj::Promise<Status> call, std::chrono::milliseconds deadline, std::string what,
             std::function<void(Status)> done);

  const WorkforceParts parts_;
  RpcServer* server_ = nullptr;
  std::map<WorkerRef, Connected> workers_;
  RunnerTable runners_;
  std::map<std::string, int> stopping_;  // pending calls to stop runners, by job
  std::set<std::string> ending_;         // jobs whose logs end after these calls
};

// Makes the service for a connection of role worker or runner. Threads: the loop's.
wire::Registry::Client make_registry(std::shared_ptr<Workforce::Inside> inside,
                                     const RpcPeer& peer);

}  // namespace leat
