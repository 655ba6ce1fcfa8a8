// The service that workers and runners call. Each connection has one object, which ends with it.
#include <algorithm>

#include "daemon/jobs/grammar.h"
#include "daemon/master/permits.h"
#include "daemon/master/wire_replies.h"
#include "daemon/master/wire_saved_files.h"
#include "daemon/master/wire_workforce.h"
#include "daemon/remote/wire_remote_host.h"
#include "daemon/spec/chaos_fault.h"
#include "daemon/wire/registration.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/service.h"

namespace leat {
namespace {

using wire::Registry;

constexpr size_t kMaxLogBytes = 128 << 10;  // of a call
constexpr size_t kMaxRunnerText = 4 << 10;
constexpr size_t kMaxSaved = 16;  // files of a runner that travel at a time
constexpr const char* kTooManySaved = "saved files: too many at a time";

class RegistryService final : public Service<Registry> {
 public:
  RegistryService(std::shared_ptr<Workforce::Inside> inside, const RpcPeer& peer)
      : inside_(std::move(inside)),
        role_(peer.role),
        connection_(peer.connection),
        address_(peer.address),
        grant_(peer.grant) {}

  ~RegistryService() {
    // The object goes with its connection. The table hears of a lost worker by this, without the
    // wait for its heartbeats to stop.
    if (worker_) inside_->worker_hangs_up(*worker_, connection_);
    if (place_) inside_->runner_hangs_up(connection_);
  }

 protected:
  kj::Promise<void> registerWorker(RegisterWorkerContext context) override;
  kj::Promise<void> registerRunner(RegisterRunnerContext context) override;
  kj::Promise<void> report(ReportContext context) override;
  kj::Promise<void> runnerExited(RunnerExitedContext context) override;
  kj::Promise<void> log(LogContext context) override;
  kj::Promise<void> chaos(ChaosContext context) override;
  kj::Promise<void> linkFailed(LinkFailedContext context) override;
  kj::Promise<void> inputStarved(InputStarvedContext context) override;
  kj::Promise<void> deviceFailed(DeviceFailedContext context) override;
  kj::Promise<void> drain(DrainContext context) override;
  kj::Promise<void> saveFile(SaveFileContext context) override;
  kj::Promise<void> savedFile(SavedFileContext context) override;

 private:
  Status check_role(RpcRole role, std::string_view method) const;
  Status check_worker(std::string_view method) const;
  // Whether the key of the connection is that of this worker, or of a member.
  Status check_name_of_worker(const std::string& name) const;
  // The job of the runner of this connection. failed_precondition if it is the runner of none.
  Result<std::string> check_job(std::string_view method);
  void tell_of_registration(const std::string& worker, const Status& outcome) const {
    const auto& told = inside_->parts().options.on_registered;
    if (told) told(worker, address_, outcome);
  }
  Status take_runner(wire::RunnerInfo::Reader info, wire::Runner::Client runner);
  // Whether a runner of the job is, or lately was, on the worker: this master or one before it has
  // told the worker to start one. The claims of the worker itself do not count.
  bool has_or_had(const std::string& job) const;

  const std::shared_ptr<Workforce::Inside> inside_;
  const RpcRole role_;
  const uint64_t connection_;
  const std::string address_;  // of the connection's other end
  const Grant grant_;
  std::optional<WorkerRef> worker_;   // whose connection this is, once it has registered
  std::optional<RunnerPlace> place_;  // with which a runner has registered
  Permits saved_{kMaxSaved};
};

// Workers and runners get the same interface; each method belongs to one role.
Status RegistryService::check_role(RpcRole role, std::string_view method) const {
  if (role_ == role) return {};
  return failed_precondition(cat("Registry.", method, ": expected a connection of role ",
                                 rpc_role_name(role), ", received it on one of role ",
                                 rpc_role_name(role_)));
}

Status RegistryService::check_worker(std::string_view method) const {
  LEAT_RETURN_IF_ERROR(check_role(RpcRole::worker, method));
  if (worker_) return {};
  return failed_precondition(cat("Registry.", method, ": expected the worker to register first"));
}

Status RegistryService::check_name_of_worker(const std::string& name) const {
  if (may_be_worker(grant_, name)) return {};
  return failed_precondition(cat("Registry.registerWorker: expected worker '", grant_.name,
                                 "', whose token it has, received '", printable(name), "'"));
}

kj::Promise<void> RegistryService::registerWorker(RegisterWorkerContext context) {
  const auto params = context.getParams();
  const WorkerInfo info = read_worker(params.getInfo());
  Status status = check_role(RpcRole::worker, "registerWorker");
  if (status.ok() && worker_ && *worker_ != info.worker) {
    status = failed_precondition(cat("worker '", info.worker.name,
                                     "': expected a connection for each incarnation, and this one "
                                     "is that of another"));
  }
  if (status.ok()) status = check_name_of_worker(info.worker.name);
  const std::string& named = grant_.right == Right::worker ? grant_.name : info.worker.name;
  if (status.ok()) status = check_claims(info, named, inside_->parts().options.limits);
  // Nothing is stored before all that the worker sent was read and checked.
  const auto tokens = read_tokens(params.getInfo());
  if (status.ok()) status = tokens.status();
  if (status.ok())
    status = inside_->worker_connects(info, *tokens, params.getWorker(), connection_);
  if (!status.ok()) {
    tell_of_registration(info.worker.name, status);
    write_status(status, context.getResults().initOutcome().initError());
    return kj::READY_NOW;
  }
  // Known at once: should the connection end before the answer, it has been joined and is lost.
  worker_ = info.worker;
  auto answered = answered_elsewhere<Status>(inside_->parts().loop, "Registry.registerWorker");
  // The membership decides on its own thread. Meanwhile other calls of this connection are served.
  inside_->parts().state.join(info, answered.done);
  return answered.promise.then([this, context, worker = info.worker](Status&& joined) mutable {
    auto outcome = context.getResults().initOutcome();
    tell_of_registration(worker.name, joined);
    if (!joined.ok()) {
      inside_->worker_refused(worker, connection_);
      // A repeated call may have been refused before this one.
      worker_.reset();
      return write_status(joined, outcome.initError());
    }
    auto registered = outcome.initOk();
    const WorkforceOptions& options = inside_->parts().options;
    registered.setClusterId(options.cluster_id);
    registered.setGeneration(options.generation);
    registered.setHeartAddress(options.heart_address);
    registered.setHeartbeatMs(static_cast<uint32_t>(options.heartbeat.count()));
  });
}

Status RegistryService::take_runner(wire::RunnerInfo::Reader info, wire::Runner::Client runner) {
  LEAT_RETURN_IF_ERROR(check_role(RpcRole::runner, "registerRunner"));
  RunnerFacts facts;
  LEAT_ASSIGN_OR_RETURN(static_cast<RunnerInfo&>(facts), read_runner(info));
  RunnerPlace place{facts.job, facts.assembly, facts.task};
  if (grant_.right == Right::runner && grant_.name != facts.job) {
    return failed_precondition(cat("Registry.registerRunner: expected a runner of job '",
                                   grant_.name, "', whose key it has, received one of '",
                                   printable(facts.job), "'"));
  }
  if (place_ == place) return {};  // repeated
  if (place_) return failed_precondition("Registry.registerRunner: expected it once");
  LEAT_ASSIGN_OR_RETURN(const auto token, read_token(info.getToken(), "registerRunner"));
  LEAT_RETURN_IF_ERROR(
      inside_->runner_connects(place, token, std::move(facts), kj::mv(runner), connection_));
  place_ = std::move(place);
  return {};
}

kj::Promise<void> RegistryService::registerRunner(RegisterRunnerContext context) {
  const auto params = context.getParams();
  answer(take_runner(params.getInfo(), params.getRunner()), context.getResults().initOutcome());
  return kj::READY_NOW;
}

kj::Promise<void> RegistryService::report(ReportContext context) {
  Status status = check_role(RpcRole::runner, "report");
  if (status.ok()) {
    const auto runner = inside_->runner_of(connection_);
    status = runner.status();
    // A runner on its way to another assembly reports about runs that are over: ignore these.
    if (runner.ok() && *runner != nullptr)
      status = take_reports(**runner, context.getParams().getReports());
  }
  answer(status, context.getResults().initOutcome());
  return kj::READY_NOW;
}

kj::Promise<void> RegistryService::runnerExited(RunnerExitedContext context) {
  const auto params = context.getParams();
  const Status status = check_worker("runnerExited");
  if (status.ok()) {
    inside_->runner_exited(
        *worker_, to_string(params.getJob()), params.getAssembly(),
        {to_string(params.getHow()).substr(0, kMaxRunnerText), params.getCrashed()});
  }
  answer(status, context.getResults().initOutcome());
  return kj::READY_NOW;
}

bool RegistryService::has_or_had(const std::string& job) const {
  if (inside_->runners().had(worker_->name, job)) return true;
  const auto view = inside_->parts().state.tables().job(job);
  if (!view.ok() || view->id != job) return false;
  const auto& workers = view->condition.workers;
  return std::find(workers.begin(), workers.end(), worker_->name) != workers.end();
}

kj::Promise<void> RegistryService::log(LogContext context) {
  const auto params = context.getParams();
  Status status = check_worker("log");
  std::vector<std::string> lines;
  size_t bytes = 0;
  for (const auto line : params.getLines()) {
    bytes += line.size() + 1;
    lines.push_back(to_string(line));
  }
  const std::string job = to_string(params.getJob());
  if (status.ok() && bytes > kMaxLogBytes) {
    status = invalid_argument(
        cat("Registry.log: expected at most ", kMaxLogBytes, " bytes of lines, received ", bytes));
  }
  // A worker must not write into the logs of others' jobs, nor learn which jobs there are.
  if (status.ok() && !has_or_had(job)) {
    status = invalid_argument(cat("Registry.log: expected a job with a runner on worker '",
                                  worker_->name, "', received ", quoted_start(job)));
    const auto& told = inside_->parts().options.on_refused_lines;
    if (told) told(worker_->name, address_, status);
  }
  // The table also takes a prefix of an id, which must not become the name of a log.
  const auto known = inside_->parts().state.tables().job(job);
  if (status.ok() && (!known.ok() || known->id != job)) {
    // Not failed_precondition, which tells a worker that its incarnation is lost: a job may be
    // removed while its last lines are on their way.
    status = invalid_argument(cat("Registry.log: there is no job '", job, "'"));
  }
  if (!status.ok()) {
    answer(status, context.getResults().initOutcome());
    return kj::READY_NOW;
  }
  auto answered = answered_elsewhere<Status>(inside_->parts().loop, "Registry.log");
  inside_->parts().logs.add(job, worker_->name, std::move(lines),
                            // The answer comes when the lines are written, so a worker cannot send
                            // faster than the disk writes.
                            [done = answered.done] { done(Status()); });
  return answered.promise.then(
      [context](Status&& written) mutable { answer(written, context.getResults().initOutcome()); });
}

kj::Promise<void> RegistryService::linkFailed(LinkFailedContext context) {
  const auto params = context.getParams();
  Status status = check_role(RpcRole::runner, "linkFailed");
  LinkFailed event;
  event.assembly = params.getAssembly();
  event.peer = to_string(params.getPeer()).substr(0, kMaxRunnerText);
  event.fault = read_fault(params.getFault());
  event.how = to_string(params.getHow()).substr(0, kMaxRunnerText);
  if (status.ok()) status = inside_->hand_on(connection_, std::move(event));
  answer(status, context.getResults().initOutcome());
  return kj::READY_NOW;
}

kj::Promise<void> RegistryService::inputStarved(InputStarvedContext context) {
  const auto params = context.getParams();
  Status status = check_role(RpcRole::runner, "inputStarved");
  InputStarved event;
  event.assembly = params.getAssembly();
  event.how = to_string(params.getHow()).substr(0, kMaxRunnerText);
  // A number that makes no sense is cut, so that no sum of times overflows.
  event.waited = std::chrono::milliseconds(std::min<uint64_t>(params.getWaitedMs(), 3600'000));
  if (status.ok()) status = inside_->hand_on(connection_, std::move(event));
  answer(status, context.getResults().initOutcome());
  return kj::READY_NOW;
}

kj::Promise<void> RegistryService::deviceFailed(DeviceFailedContext context) {
  const auto params = context.getParams();
  Status status = check_role(RpcRole::runner, "deviceFailed");
  DeviceFailed event;
  event.assembly = params.getAssembly();
  event.how = to_string(params.getHow()).substr(0, kMaxRunnerText);
  if (status.ok()) status = inside_->hand_on(connection_, std::move(event));
  answer(status, context.getResults().initOutcome());
  return kj::READY_NOW;
}

kj::Promise<void> RegistryService::chaos(ChaosContext context) {
  const auto params = context.getParams();
  Status status = check_role(RpcRole::runner, "chaos");
  if (status.ok() && !place_) {
    // With a master that has just started: it asks again.
    status = unavailable("Registry.chaos: expected the runner to have registered, it has not yet");
  }
  // The text goes into the journal and the log of the job, so it has to be a fault.
  if (status.ok()) status = check_chaos(to_string(params.getFault()), 0);
  if (!status.ok()) {
    answer(status, context.getResults().initOutcome());
    return kj::READY_NOW;
  }
  auto answered = answered_elsewhere<Status>(inside_->parts().loop, "Registry.chaos");
  // The job's log has the fault before it happens, so that it can be found if it ends the runner.
  inside_->parts().state.fault_due(
      {0, place_->job, params.getAssembly(), params.getIndex(), to_string(params.getFault())},
      [inside = inside_, job = place_->job, fault = to_string(params.getFault()),
       done = answered.done](const Status& status) {
        if (!status.ok()) return done(status);
        inside->parts().logs.add(job, "master", {cat("chaos: ", fault)},
                                 [done] { done(Status()); });
      });
  return answered.promise.then(
      [context](Status&& written) mutable { answer(written, context.getResults().initOutcome()); });
}

kj::Promise<void> RegistryService::drain(DrainContext context) {
  if (const Status status = check_worker("drain"); !status.ok()) {
    answer(status, context.getResults().initOutcome());
    return kj::READY_NOW;
  }
  auto answered = answered_elsewhere<Status>(inside_->parts().loop, "Registry.drain");
  inside_->parts().state.retire(*worker_, answered.done);
  return answered.promise.then(
      [context](Status&& noted) mutable { answer(noted, context.getResults().initOutcome()); });
}

Result<std::string> RegistryService::check_job(std::string_view method) {
  LEAT_RETURN_IF_ERROR(check_role(RpcRole::runner, method));
  if (!place_) {
    // With a master that has just started.
    return unavailable(cat("Registry.", method, ": expected the runner to have registered"));
  }
  // A runner that was given up must not change what its successor saves.
  LEAT_RETURN_IF_ERROR(inside_->runner_of(connection_).status());
  return place_->job;
}

kj::Promise<void> RegistryService::saveFile(SaveFileContext context) {
  const auto params = context.getParams();
  const auto job = check_job("saveFile");
  if (!job.ok()) return refuse(job.status(), context);
  const auto sha256 = read_digest(params.getSha256());
  if (!sha256.ok()) return refuse(sha256.status(), context);
  const auto permit = saved_.take();
  if (permit == nullptr) return refuse(resource_exhausted(kTooManySaved), context);
  // A step of an assembly that is over may come again, and must not find what it has saved.
  auto valid = [inside = inside_, connection = connection_, assembly = params.getAssembly()] {
    return inside->runners().is_in(connection, assembly);
  };
  if (const Status status = valid(); !status.ok()) return refuse(status, context);
  auto upload = inside_->parts().saved.receive(
      *job, to_string(params.getPath()), {params.getSize(), *sha256}, permit, std::move(valid));
  if (!upload.ok()) return refuse(upload.status(), context);
  context.getResults().initOutcome().setOk(*upload);
  return kj::READY_NOW;
}

kj::Promise<void> RegistryService::savedFile(SavedFileContext context) {
  const auto job = check_job("savedFile");
  if (!job.ok()) return refuse(job.status(), context);
  const auto permit = saved_.take();
  if (permit == nullptr) return refuse(resource_exhausted(kTooManySaved), context);
  SavedFilesOfJobs& saved = inside_->parts().saved;
  using Offer = std::optional<SavedFilesOfJobs::Offer>;
  return reply(saved.open(*job, to_string(context.getParams().getPath())), context,
               [&saved, permit](const Offer& offer, auto outcome) {
                 auto file = outcome.initOk();
                 if (!offer) return file.setMissing();
                 auto blob = file.initBlob();
                 blob.setSize(offer->info.size);
                 blob.setSha256({offer->info.sha256.data(), offer->info.sha256.size()});
                 blob.setContent(saved.offer(*offer, permit));
               });
}

}  // namespace

wire::Registry::Client make_registry(std::shared_ptr<Workforce::Inside> inside,
                                     const RpcPeer& peer) {
  return kj::heap<RegistryService>(std::move(inside), peer);
}

}  // namespace leat
