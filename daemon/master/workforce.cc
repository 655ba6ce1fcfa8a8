#include "daemon/master/workforce.h"

#include <kj/debug.h>

#include <algorithm>

#include "daemon/master/wire_workforce.h"
#include "daemon/remote/wire_remote_host.h"
#include "daemon/wire/registration.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/server.h"

namespace leat {
namespace {

// The calls to a runner wait this long for the reason of its end, once its connection is gone.
constexpr std::chrono::milliseconds kExitNews{100};

void log_trouble(const Logger& log, const LinkFailed& event) {
  log.info("the link from '", event.worker.name, "' to '", event.peer, "' of job '", event.job,
           "' failed (", name_of(event.fault), "): ", event.how);
}
void log_trouble(const Logger& log, const InputStarved& event) {
  log.warning("job '", event.job, "' gets no input on '", event.worker.name, "': ", event.how);
}
void log_trouble(const Logger& log, const DeviceFailed& event) {
  log.warning("job '", event.job, "' lost the GPU on '", event.worker.name, "': ", event.how);
}

}  // namespace

// Runners -----------------------------------------------------------------------------------------

void Workforce::Inside::start(const StartRunners& action) {
  // All runners of an assembly get the same key, by which they recognize each other.
  const RunnerToken key = random_token();
  const auto sharers = static_cast<uint32_t>(std::max<size_t>(1, action.workers.size()));
  // Workers that share one machine share its threads, too; each gets at least one.
  const uint32_t of_machine =
      parts_.options.shared_threads > 0 ? std::max(1u, parts_.options.shared_threads / sharers) : 0;
  // A job with a share of its workers computes on the cores of its share.
  const uint32_t threads = action.share.is_whole() ? of_machine : action.share.cores;
  const std::string credential = runner_credential(parts_.options.secret(), action.job);
  for (uint32_t task = 0; task < action.workers.size(); ++task) {
    const RunnerPlace place{action.job, action.assembly, task};
    const bool kept = task < action.kept.size() && action.kept[task];
    if (kept) {
      advance(place, action.workers[task], key);
      continue;
    }
    start(place, action.workers[task],
          {action.job, action.assembly, task, threads, random_token(), key, action.gpus,
           action.share.memory, parts_.options.chaos, credential});
  }
}

void Workforce::Inside::start(const RunnerPlace& place, const WorkerRef& worker,
                              const RunnerOrder& order) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;  // the table hears that it was lost
  runners_.note(worker.name, place.job);
  // The slot is there before the worker is asked: the runner may register before the worker has
  // answered.
  Slot& slot = runners_.at(place);
  slot = {};
  slot.worker = worker;
  slot.token = order.token;
  slot.from = place.assembly;
  auto request = found->second.worker.startRequest();
  write_order(order, request.initSpec());
  auto call = request.send().then(
      [](auto&& response) -> Status { return status_of(response.getOutcome()); });
  await(kj::mv(call), parts_.options.call_deadline, cat("Worker.start to '", worker.name, "'"),
        [this, place, worker](const Status& status) {
          if (status.ok()) return;
          parts_.options.log.warning("starting the runner of ", text_of(place), ": ",
                                     status.message());
          // Without an answer it may come all the same; or its worker is lost, and that is heard.
          if (status.code() == Code::deadline_exceeded || !workers_.contains(worker)) return;
          runner_exited(worker, place.job, place.assembly,
                        {cat("could not be started: ", status.message())});
        });
}

void Workforce::Inside::advance(const RunnerPlace& to, const WorkerRef& worker,
                                const RunnerToken& key) {
  if (!workers_.contains(worker)) return;  // the table hears that it was lost
  const Slot* const found = runners_.find(worker, to.job, to.assembly);
  // A runner that cannot go on is stopped; its end makes the table begin another assembly.
  if (found == nullptr || found->runner == nullptr || found->hung_up)
    return stop(worker, to.job, to.assembly, {}, "could not go on: its connection is gone");
  Slot& slot = runners_.move(worker, to);
  // The host of the old assembly is over: its calls fail now, and has_advanced() makes another
  // host.
  slot.runner->lost(cancelled(cat("the job goes on in assembly ", to.assembly)));
  slot.runner = nullptr;
  tell_worker(to, slot, key);
}

void Workforce::Inside::tell_worker(const RunnerPlace& to, const Slot& slot,
                                    const RunnerToken& key) {
  // The worker comes first, since peers reach the runner through it. The runner keeps its token.
  auto request = workers_.at(slot.worker).worker.advanceRequest();
  write_order({to.job, to.assembly, to.task, 0, slot.token, key, 0, 0}, request.initSpec());
  auto call = request.send().then(
      [](auto&& response) -> Status { return status_of(response.getOutcome()); });
  await(kj::mv(call), parts_.options.call_deadline,
        cat("Worker.advance to '", slot.worker.name, "'"),
        [this, to, key, connection = slot.connection](const Status& status) {
          after_advance(to, connection, status, [&](Slot& there) { tell_runner(to, there, key); });
        });
}

// The runner is told once its worker knows the new assembly and key.
void Workforce::Inside::tell_runner(const RunnerPlace& to, Slot& slot, const RunnerToken& key) {
  auto request = KJ_ASSERT_NONNULL(slot.wire).advanceRequest();
  request.setAssembly(to.assembly);
  request.setKey(kj::arrayPtr(key.data(), key.size()));
  request.setTask(to.task);
  auto call = request.send().then(
      [](auto&& response) -> Status { return status_of(response.getOutcome()); });
  await(kj::mv(call), parts_.options.call_deadline,
        cat("Runner.advance to that on '", slot.worker.name, "'"),
        [this, to, connection = slot.connection](const Status& status) {
          after_advance(to, connection, status, [&](Slot& there) { has_advanced(to, there); });
        });
}

void Workforce::Inside::after_advance(const RunnerPlace& to, uint64_t connection,
                                      const Status& status,
                                      const std::function<void(Slot&)>& then) {
  Slot* const found = runners_.find(to);
  // While the call was on its way, the runner's slot may have gone or passed to another runner.
  if (found == nullptr || found->connection != connection) return;
  if (status.ok()) return then(*found);
  parts_.options.log.warning("advancing the runner of ", text_of(to), ": ", status.message());
  stop(found->worker, to.job, to.assembly, {}, cat("could not go on: ", status.message()));
}

void Workforce::Inside::has_advanced(const RunnerPlace& to, Slot& slot) {
  if (slot.hung_up) return;  // its end is being seen to
  // From here on, reports of the worker about the old assembly find no slot.
  slot.from = slot.facts.assembly = to.assembly;
  slot.facts.task = to.task;
  slot.facts.device_name = cat("job:worker/task:", to.task, "/cpu:0");
  slot.runner = make_remote_host(parts_.loop, slot.facts, KJ_ASSERT_NONNULL(slot.wire));
  parts_.state.handle(RunnerStarted{to.job, to.assembly, slot.worker});
}

void Workforce::Inside::stop(const StopRunners& action) {
  for (const WorkerRef& worker : action.workers) {
    stop(worker, action.job, action.assembly, action.grace, cat("was stopped: ", action.reason));
  }
}

void Workforce::Inside::stop(const WorkerRef& worker, const std::string& job, uint64_t assembly,
                             std::chrono::milliseconds grace, const std::string& how) {
  const auto found = workers_.find(worker);
  // A lost worker needs no order: its runners end with their connections, which are dropped.
  if (found == workers_.end()) return;
  ++stopping_[job];
  auto request = found->second.worker.stopRequest();
  request.setJob(job);
  request.setAssembly(assembly);
  request.setGraceMs(static_cast<uint32_t>(grace.count()));
  auto call = request.send().then(
      [](auto&& response) -> Status { return status_of(response.getOutcome()); });
  await(kj::mv(call), grace + parts_.options.stop_deadline,
        cat("Worker.stop to '", worker.name, "'"),
        [this, worker, job, assembly, how](const Status& status) {
          stopped(worker, job, assembly, how, status);
        });
}

void Workforce::Inside::stopped(const WorkerRef& worker, const std::string& job, uint64_t assembly,
                                const std::string& how, const Status& status) {
  // The count comes first, so that the log can end also if the worker did not answer.
  if (--stopping_[job] == 0) stopping_.erase(job);
  if (status.ok()) {
    runner_exited(worker, job, assembly, {how});
  } else {
    // The table expels a worker that does not answer, after a deadline.
    parts_.options.log.warning("stopping the runner of job '", job, "': ", status.message());
  }
  end_log_if_stopped(job);
}

// The runners write their last lines while they are stopped, so the log waits for these calls.
void Workforce::Inside::end_log(const std::string& job) {
  ending_.insert(job);
  end_log_if_stopped(job);
}

void Workforce::Inside::end_log_if_stopped(const std::string& job) {
  if (stopping_.contains(job) || ending_.erase(job) == 0) return;
  parts_.logs.end(job);
}

Status Workforce::Inside::runner_connects(const RunnerPlace& place, const RunnerToken& token,
                                          RunnerFacts facts, wire::Runner::Client runner,
                                          uint64_t connection) {
  Slot* const found = runners_.find(place);
  // A slot takes one runner: a second process with the same token is refused.
  const bool expected = found != nullptr && found->wire == nullptr;
  if (!expected || !equal(found->token, token)) {
    return failed_precondition(cat(
        "register: ", text_of(place), ": expected the runner that its worker was told to start, ",
        expected ? "received another token" : "and there is none that is awaited"));
  }
  Slot& slot = *found;
  const auto worker = workers_.find(slot.worker);
  if (worker == workers_.end()) return failed_precondition("register: its worker was lost");
  // Peers dial the data port of the worker, which hands the connection to the runner.
  facts.node = slot.worker.name;
  facts.data_address = worker->second.info.address;
  facts.machine = worker->second.info.machine;
  slot.facts = facts;
  slot.wire = runner;
  slot.runner = make_remote_host(parts_.loop, std::move(facts), kj::mv(runner));
  runners_.seat(place, connection);
  parts_.state.handle(RunnerStarted{place.job, place.assembly, slot.worker});
  return {};
}

Result<RemoteHost*> Workforce::Inside::runner_of(uint64_t connection) {
  if (const Slot* slot = runners_.of_connection(connection)) return slot->runner.get();
  return failed_precondition("expected a runner whose assembly goes on");
}

Status Workforce::Inside::hand_on(uint64_t connection, RunnerTrouble trouble) {
  const Slot* slot = runners_.of_connection(connection);
  if (slot == nullptr) return failed_precondition("expected a runner whose assembly goes on");
  std::visit(
      [&](auto& event) {
        event.job = slot->facts.job;
        event.worker = slot->worker;
        log_trouble(parts_.options.log, event);
        parts_.state.handle(std::move(event));
      },
      trouble);
  return {};
}

void Workforce::Inside::runner_hangs_up(uint64_t connection) {
  const RunnerPlace* const seat = runners_.place_of(connection);
  if (seat == nullptr) return;
  const RunnerPlace place = *seat;  // the last one: without its connection it goes no further
  runners_.unseat(connection);
  // The tasks below run later, when another runner may have the place.
  const auto still_there = [this, place, connection]() -> Slot* {
    Slot* const slot = runners_.find(place);
    return slot != nullptr && slot->connection == connection ? slot : nullptr;
  };
  Slot* const slot = still_there();
  if (slot == nullptr) return;
  slot->hung_up = true;
  // The worker's report of how the process ended says more, and is about to come.
  after(kExitNews, [still_there] {
    const Slot* slot = still_there();
    if (slot == nullptr || slot->runner == nullptr) return;
    slot->runner->lost(unavailable("its connection to the master has ended"));
  });
  after(parts_.options.exit_deadline, [this, place, still_there] {
    const Slot* slot = still_there();
    if (slot == nullptr) return;
    stop(slot->worker, place.job, place.assembly, {}, "lost its connection to the master");
  });
}

void Workforce::Inside::runner_exited(const WorkerRef& worker, const std::string& job,
                                      uint64_t assembly, const RunnerEnd& end) {
  // Calls to the runner fail before the table hears of its end, both with the same reason.
  runners_.remove(worker, job, assembly, unavailable(cat("its process ", end.how)));
  parts_.state.handle(RunnerExited{job, assembly, worker, end});
}

// Workers -----------------------------------------------------------------------------------------

Status Workforce::Inside::worker_connects(const WorkerInfo& info,
                                          const std::vector<RunnerToken>& tokens,
                                          wire::Worker::Client worker, uint64_t connection) {
  const auto found = workers_.find(info.worker);
  if (found != workers_.end() && found->second.connection != connection) {
    return failed_precondition(cat("worker '", info.worker.name,
                                   "': expected one connection of each incarnation, and this one "
                                   "has another that lives"));
  }
  // A registration may be repeated on the same connection.
  workers_.insert_or_assign(info.worker, Connected{info, kj::mv(worker), connection});
  for (size_t i = 0; i < info.runners.size(); ++i) {
    const HeldRunner& held = info.runners[i];
    const RunnerPlace place{held.job, held.assembly, held.task};
    // The runners that outlived the last master are expected to register again, each with its
    // token.
    if (runners_.find(place) != nullptr) continue;
    Slot& slot = runners_.at(place);
    slot.worker = info.worker;
    slot.token = tokens[i];
    slot.from = held.assembly;
  }
  return {};
}

void Workforce::Inside::worker_refused(const WorkerRef& worker, uint64_t connection) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.connection != connection) return;
  workers_.erase(found);
  // The connection stays open: the worker may register on it again.
  (void)runners_.remove(worker, cancelled("its worker was refused"));
}

void Workforce::Inside::worker_hangs_up(const WorkerRef& worker, uint64_t connection) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.connection != connection) return;
  workers_.erase(found);
  parts_.state.lose(worker, "its connection has ended");
}

void Workforce::Inside::worker_lost(const WorkerRef& worker, const std::string& reason) {
  parts_.options.log.warning("worker '", worker.name, "' was lost: ", reason);
  const Status cause = unavailable(cat("its worker was lost: ", reason));
  // Calls to its runners fail at once; TCP would not notice that a stopped process is gone.
  std::vector<uint64_t> connections = runners_.remove(worker, cause);
  const auto found = workers_.find(worker);
  if (found != workers_.end()) {
    connections.push_back(found->second.connection);
    workers_.erase(found);
  }
  // A runner ends with its connection. Its worker may not be able to see to it: it may be stopped.
  if (server_ == nullptr) return;
  for (const uint64_t connection : connections) server_->drop(connection);
}

// The loop ----------------------------------------------------------------------------------------

void Workforce::Inside::after(std::chrono::milliseconds delay, std::function<void()> task) {
  LoopContext& context = parts_.loop.context();
  context.tasks.add(context.timer.afterDelay(to_kj(delay))
                        .then([self = weak_from_this(), task = std::move(task)] {
                          if (self.lock() != nullptr) task();
                        }));
}

void Workforce::Inside::await(kj::Promise<Status> call, std::chrono::milliseconds deadline,
                              std::string what, std::function<void(Status)> done) {
  LoopContext& context = parts_.loop.context();
  context.tasks.add(within(kj::mv(call), context.timer, deadline, std::move(what))
                        .then([self = weak_from_this(), done = std::move(done)](Status&& status) {
                          if (self.lock() != nullptr) done(std::move(status));
                        }));
}

void Workforce::Inside::clear(const std::string& reason) {
  server_ = nullptr;
  runners_.clear(cancelled(reason));
  workers_.clear();
}

Workforce::Workforce(RpcLoop& loop, ClusterState& state, JobLogs& logs, SavedFilesOfJobs& saved,
                     WorkforceOptions options)
    : loop_(loop),
      inside_(
          std::make_shared<Inside>(WorkforceParts{loop, state, logs, saved, std::move(options)})) {}

Workforce::~Workforce() { end_all("the master is stopping"); }

template <typename F>
void Workforce::post(F task) {
  (void)loop_.post([inside = inside_, task = std::move(task)] { task(*inside); });
}

void Workforce::use(RpcServer* server) {
  (void)loop_.run([&] { inside_->use(server); });
}

void Workforce::start_runners(StartRunners action) {
  post([action = std::move(action)](Inside& inside) { inside.start(action); });
}

void Workforce::stop_runners(StopRunners action) {
  post([action = std::move(action)](Inside& inside) { inside.stop(action); });
}

void Workforce::worker_lost(const WorkerRef& worker, const std::string& reason) {
  post([worker, reason](Inside& inside) { inside.worker_lost(worker, reason); });
}

void Workforce::end_assembly(const std::string& job, uint64_t assembly, const std::string& reason) {
  post([job, assembly, reason](Inside& inside) {
    inside.runners().fail(job, assembly, cancelled(reason));
  });
}

void Workforce::end_all(const std::string& reason) {
  (void)loop_.run([&] { inside_->clear(reason); });
}

kj::Promise<Result<ProcessView>> Workforce::Inside::look(const WorkerRef& worker,
                                                         const std::string& job,
                                                         uint64_t assembly) {
  const auto found = workers_.find(worker);
  if (found == workers_.end())
    return Result<ProcessView>(unavailable(cat("worker '", worker.name, "' is not connected")));
  auto request = found->second.worker.lookRequest();
  request.setJob(job);
  request.setAssembly(assembly);
  return request.send().then([](auto&& response) -> Result<ProcessView> {
    const auto outcome = response.getOutcome();
    if (outcome.isError()) return read_status(outcome.getError());
    const auto view = outcome.getOk();
    const auto state = view.getState();
    return ProcessView{view.getPid(), state.size() == 1 ? state[0] : '?', view.getQuietMs(),
                       view.getEnding()};
  });
}

void Workforce::look(const WorkerRef& worker, const std::string& job, uint64_t assembly,
                     std::chrono::milliseconds deadline,
                     std::function<void(Result<ProcessView>)> done) {
  start_call(
      loop_,
      [inside = inside_, worker, job, assembly] { return inside->look(worker, job, assembly); },
      deadline, cat("Worker.look to '", worker.name, "'"), std::move(done));
}

void Workforce::end_log(const std::string& job) {
  post([job](Inside& inside) { inside.end_log(job); });
}

Result<std::vector<std::shared_ptr<RemoteHost>>> Workforce::runners(const std::string& job,
                                                                    uint64_t assembly,
                                                                    size_t count) {
  // Each runner is asked for by itself; the first that is gone gives the error.
  std::vector<std::shared_ptr<RemoteHost>> runners;
  for (uint32_t task = 0; task < count; ++task) {
    LEAT_ASSIGN_OR_RETURN(auto runner, this->runner(job, assembly, task));
    runners.push_back(std::move(runner));
  }
  return runners;
}

Result<std::shared_ptr<RemoteHost>> Workforce::runner(const std::string& job, uint64_t assembly,
                                                      uint32_t task) {
  // A loop that has stopped does not run the function, and the answer stays as it is here.
  Result<std::shared_ptr<RemoteHost>> found = cancelled("the master is stopping");
  (void)loop_.run([&] { found = inside_->runners().runner({job, assembly, task}); });
  return found;
}

}  // namespace leat
