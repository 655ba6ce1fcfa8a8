// The inside of the workforce, on the rpc thread, and the service that workers and runners call.
// Includes Cap'n Proto: for .cc files.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "daemon/master/workforce.h"
#include "daemon/wire/cluster.capnp.h"
#include "transport/rpc/hello.h"

namespace leat {

// Threads: the loop's.
class Workforce::Inside final : public std::enable_shared_from_this<Inside> {
 public:
  using Token = std::array<uint8_t, 32>;
  struct Place {
    std::string job;
    uint64_t assembly = 0;
    uint32_t task = 0;
    auto operator<=>(const Place&) const = default;
  };

  Inside(RpcLoop& loop, ClusterState& state, JobLogs& logs, WorkforceOptions options)
      : loop_(loop), state_(state), logs_(logs), options_(std::move(options)) {}

  void use(RpcServer* server) { server_ = server; }
  // Lets go of all that lives on the loop.
  void clear(const std::string& reason);

  void start(const StartRunners& action);
  void stop(const StopRunners& action);
  void worker_lost(const WorkerRef& worker, const std::string& reason);
  void end_assembly(const std::string& job, uint64_t assembly, const std::string& reason);
  void end_log(const std::string& job);
  Result<std::vector<std::shared_ptr<RemoteHost>>> runners(const std::string& job, uint64_t assembly,
                                                           size_t count) const;
  Result<std::shared_ptr<RemoteHost>> runner(const std::string& job, uint64_t assembly,
                                             uint32_t task) const;

  // Of the service. A worker is known by its connection before it is a member, and may be refused
  // afterwards.
  // `tokens`: with which the runners that it has held will register.
  Status worker_connects(const WorkerInfo& info, const std::vector<Token>& tokens,
                         wire::Worker::Client worker, uint64_t connection);
  void worker_refused(const WorkerRef& worker, uint64_t connection);
  void worker_hangs_up(const WorkerRef& worker, uint64_t connection);
  Status runner_connects(const Place& place, const Token& token, RunnerFacts facts,
                         wire::Runner::Client runner, uint64_t connection);
  // By a runner's connection, wherever it has gone on to.
  void runner_hangs_up(uint64_t connection);
  // Ok, and null, while it is on its way to another assembly.
  Result<RemoteHost*> runner_of(uint64_t connection) const;
  // Of its assembly, by the runner with that connection.
  Status link_failed(uint64_t connection, LinkFailed event);
  Status input_starved(uint64_t connection, InputStarved event);
  void runner_exited(const WorkerRef& worker, const std::string& job, uint64_t assembly,
                     const RunnerEnd& end);

  RpcLoop& loop() { return loop_; }
  ClusterState& state() { return state_; }
  JobLogs& logs() { return logs_; }
  const WorkforceOptions& options() const { return options_; }

 private:
  struct Connected {
    WorkerInfo info;
    wire::Worker::Client worker;
    uint64_t connection = 0;
  };
  // A runner that is expected, there, on its way to the place's assembly, or gone with nobody to say
  // how.
  struct Slot {
    WorkerRef worker;
    Token token;
    uint64_t from = 0;                     // the first assembly whose news are its own
    std::shared_ptr<RemoteHost> runner;    // null: expected, or on its way
    kj::Maybe<wire::Runner::Client> wire;  // null: expected
    RunnerFacts facts;
    bool hung_up = false;
    uint64_t connection = 0;  // the runner's
  };
  using Slots = std::map<Place, Slot>;

  // `threads`: of the runner; 0: the worker's own.
  void start(const Place& place, const WorkerRef& worker, const Token& key, uint32_t threads);
  // A runner that is there goes on in the place's assembly: first its worker is told, then itself.
  void advance(const Place& to, const WorkerRef& worker, const Token& key);
  void tell_worker(const Place& to, const Slot& slot, const Token& key);
  void tell_runner(const Place& to, Slot& slot, const Token& key);
  void has_advanced(const Place& to, Slot& slot);
  // Does `then` with the slot, if the call was well, and it is still that of the connection.
  void after_advance(const Place& to, uint64_t connection, const Status& status,
                     const std::function<void(Slot&)>& then);
  // Whom news of that assembly are about.
  Slots::iterator find(const WorkerRef& worker, const std::string& job, uint64_t assembly);
  const Slot* slot_of(uint64_t connection) const;
  void stop(const WorkerRef& worker, const std::string& job, uint64_t assembly,
            std::chrono::milliseconds grace, const std::string& how);
  void stopped(const WorkerRef& worker, const std::string& job, uint64_t assembly,
               const std::string& how, const Status& status);
  // Takes them out of the table; their calls end with the cause.
  void remove(const WorkerRef& worker, const std::string& job, uint64_t assembly, const Status& cause);
  void end_log_if_stopped(const std::string& job);
  // Runs `task` later on the loop, unless all is cleared by then.
  void after(std::chrono::milliseconds delay, std::function<void()> task);
  // Tells `done` what a call came to, unless all is cleared by then.
  void await(kj::Promise<Status> call, std::chrono::milliseconds deadline, std::string what,
             std::function<void(Status)> done);

  RpcLoop& loop_;
  ClusterState& state_;
  JobLogs& logs_;
  const WorkforceOptions options_;
  RpcServer* server_ = nullptr;
  std::map<WorkerRef, Connected> workers_;
  Slots slots_;
  std::map<uint64_t, Place> seats_;      // by the runner's connection
  std::map<std::string, int> stopping_;  // calls to stop runners, by job
  std::set<std::string> ending_;         // jobs whose logs are to end
};

// What a connection of role worker or runner starts from. Threads: the loop's.
wire::Registry::Client make_registry(std::shared_ptr<Workforce::Inside> inside,
                                     const RpcPeer& peer);

}  // namespace leat
