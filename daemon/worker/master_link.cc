#include "daemon/worker/master_link.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "daemon/jobs/grammar.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/registration.h"
#include "devices/base/seconds_text.h"
#include "devices/base/text.h"
#include "transport/rpc/client.h"
#include "transport/rpc/service.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

// This is the deadline of calls to the master.
constexpr auto kCall = 10s;
constexpr std::chrono::milliseconds kHoldingPause = 250ms;  // at most, while runners continue
constexpr std::chrono::milliseconds kLeastDial = 100ms;     // for the last attempt during that time
constexpr auto kLongestGrace = 60'000ms;

Result<std::array<uint8_t, 16>> read_cluster_id(std::string_view text) {
  std::array<uint8_t, 16> id{};
  if (from_hex(text, id)) return id;
  return invalid_argument(cat("cluster id: expected 32 hexadecimal digits, received '", text, "'"));
}

// Returns the address for beats. ":4711" means that port at the master's host.
std::string heart_address(const std::string& told, const std::string& master) {
  if (!told.starts_with(":")) return told;
  return master.substr(0, master.rfind(':')) + told;
}

// Returns whether the master has refused these lines, and not the worker: it has removed the job,
// or the lines break a limit.
bool refuses_lines(const Status& told) { return told.code() == Code::invalid_argument; }

uint64_t fresh_incarnation() {
  const LinkNonce bytes = link_nonce();
  uint64_t number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

}  // namespace

// The calls of the master to this worker. A call to start a runner that arrives before the answer
// to the registration waits for that answer, because the runner needs the cluster's id.
class MasterLink::Service final : public leat::Service<wire::Worker> {
 public:
  Service(RpcLoop& loop, Runners& runners, RunnerSurroundings surroundings,
          kj::Promise<std::array<uint8_t, 16>> cluster_id)
      : loop_(loop),
        runners_(runners),
        surroundings_(std::move(surroundings)),
        registered_(
            cluster_id.then([this](std::array<uint8_t, 16>&& id) { surroundings_.cluster_id = id; })
                .fork()) {}

 protected:
  kj::Promise<void> start(StartContext context) override {
    return registered_.addBranch().then([this, context]() mutable -> kj::Promise<void> {
      auto order = read_order(context.getParams().getSpec());
      if (!order.ok()) {
        answer(order.status(), context.getResults().initOutcome());
        return kj::READY_NOW;
      }
      auto elsewhere = answered_elsewhere<void>(loop_, cat("starting job ", order->job));
      // The process is forked on the thread "runners"; this loop only waits for its answer.
      runners_.start(std::move(*order), surroundings_, elsewhere.done);
      return answer_with(kj::mv(elsewhere.promise), context);
    });
  }

  kj::Promise<void> advance(AdvanceContext context) override {
    auto order = read_order(context.getParams().getSpec());
    if (!order.ok()) {
      answer(order.status(), context.getResults().initOutcome());
      return kj::READY_NOW;
    }
    auto elsewhere = answered_elsewhere<void>(loop_, cat("advancing job ", order->job));
    runners_.advance(std::move(*order), elsewhere.done);
    return answer_with(kj::mv(elsewhere.promise), context);
  }

  kj::Promise<void> look(LookContext context) override {
    const auto params = context.getParams();
    auto elsewhere =
        answered_elsewhere<ProcessView>(loop_, cat("looking at job ", params.getJob().cStr()));
    runners_.look(params.getJob().cStr(), params.getAssembly(), elsewhere.done);
    return elsewhere.promise.then([context](Result<ProcessView>&& view) mutable {
      auto outcome = context.getResults().initOutcome();
      if (!view.ok()) return write_status(view.status(), outcome.initError());
      auto out = outcome.initOk();
      out.setPid(view->pid);
      out.setState(std::string(1, view->state));
      out.setQuietMs(view->quiet_ms);
      out.setEnding(view->ending);
    });
  }

  kj::Promise<void> stop(StopContext context) override {
    const auto params = context.getParams();
    auto elsewhere = answered_elsewhere<void>(loop_, cat("stopping job ", params.getJob().cStr()));
    runners_.stop(params.getJob().cStr(), params.getAssembly(),
                  std::min(kLongestGrace, std::chrono::milliseconds(params.getGraceMs())),
                  elsewhere.done);
    return answer_with(kj::mv(elsewhere.promise), context);
  }

 private:
  template <typename Context>
  static kj::Promise<void> answer_with(kj::Promise<Status> promise, Context context) {
    return promise.then(
        [context](Status&& status) mutable { answer(status, context.getResults().initOutcome()); });
  }

  RpcLoop& loop_;
  Runners& runners_;
  RunnerSurroundings surroundings_;
  kj::ForkedPromise<void> registered_;
};

Result<std::unique_ptr<MasterLink>> MasterLink::create(MasterLinkOptions options) {
  std::unique_ptr<MasterLink> link(new MasterLink(std::move(options)));
  LEAT_ASSIGN_OR_RETURN(link->loop_, RpcLoop::start(link->options_.log.named("rpc")));
  LEAT_ASSIGN_OR_RETURN(link->heart_, Heart::create(link->options_.identity, link->options_.log));
  link->status_ = unavailable("not yet registered with the master");
  return link;
}

MasterLink::~MasterLink() = default;

void MasterLink::wrote(const std::string& job, uint64_t assembly, std::vector<std::string> lines) {
  outbox_.add({job, assembly, std::move(lines)});
}

void MasterLink::exited(const std::string& job, uint64_t assembly, const RunnerEnd& end) {
  outbox_.add({job, assembly, {}, end});
}

void MasterLink::start(Runners& runners) {
  runners_ = &runners;
  thread_ = std::thread([this] { live(); });
}

void MasterLink::stop() {
  // The thread sends what is left and ends. The loops stop after it, because it uses them.
  outbox_.stop();
  if (thread_.joinable()) thread_.join();
  loop_->stop();
  heart_->close();
}

Status MasterLink::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void MasterLink::set_status(Status status) {
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
}

// The loop calls it for a lost connection, the heart for a refused beat, and the thread "master" at
// the end of a membership. It wakes the thread out of next().
void MasterLink::lost(const Status& cause) {
  outbox_.end(cause);
  heart_->end();
}

void MasterLink::live() {
  pthread_setname_np(pthread_self(), "master");
  auto wait = options_.least_pause;
  std::string said;
  alone_since_ = Steady::now();
  do {
    // One pass of the loop is one attempt to register, and the membership that comes of it.
    const Status why = be_member();
    const bool was_member = status().ok();
    if (was_member) alone_since_ = Steady::now();
    const bool holds = holds_runners(why);
    if (!holds) {
      // The next registration is that of a new worker, for which no old runner may work.
      runners_->stop_all(0ms);
      incarnation_ = 0;
    }
    // The status is ok until here, so that `was_member` above is of this attempt.
    set_status(why);
    if (was_member) {
      wait = options_.least_pause;
      options_.log.warning("no longer a member of the cluster: ", why.message());
    } else if (!name_.taken && why.message() != said) {
      options_.log.warning("not registered yet: ", why.message());
      said = why.message();
    }
    if (renounces_name(why)) break;
    if (!outbox_.pause(wait)) break;
    // The pause doubles. It stays short while runners wait for a master to take them over.
    wait = std::min(holds ? kHoldingPause : options_.most_pause, wait * 2);
  } while (true);
}

// The worker that has the name may be an earlier process of this worker, which the master will soon
// count as lost. If the name stays in use, it belongs to another worker, and further attempts are
// useless.
bool MasterLink::renounces_name(const Status& why) {
  if (!name_.taken) {
    name_.since.reset();
    return false;
  }
  const auto now = Steady::now();
  const std::string patience = seconds_text(options_.name_patience);
  if (!name_.since) {
    name_.since = now;
    options_.log.warning("not registered yet: ", why.message(), "; tries again for ", patience,
                         ", then it ends");
  }
  if (now - *name_.since < options_.name_patience) return false;
  {
    const std::lock_guard lock(mutex_);
    gave_up_ = why.while_doing(cat("trying for ", patience, " to be let in"));
  }
  if (options_.on_given_up) options_.on_given_up();
  return true;
}

Status MasterLink::gave_up() const {
  const std::lock_guard lock(mutex_);
  return gave_up_;
}

// Returns whether the runners continue between two memberships. A master that answers
// failed_precondition knows this incarnation, and has counted it as lost.
bool MasterLink::holds_runners(const Status& why) {
  if (why.code() == Code::failed_precondition || runners_->size() == 0) return false;
  if (outbox_.stopping()) return false;
  return Steady::now() - alone_since_ < options_.adopt_within;
}

Result<Heart::Membership> MasterLink::register_with(RpcClient& client) {
  // Read it first, because a new runner may be started before this thread continues.
  const bool holds = runners_->size() > 0;
  struct Answered {
    std::string cluster_id;
    std::string heart;
    uint32_t beat_ms = 0;
  };
  auto answered = client.call<wire::Registry>(
      "Registry.registerWorker", kCall, [&](wire::Registry::Client registry) {
        auto known = kj::newPromiseAndFulfiller<std::array<uint8_t, 16>>();
        auto request = registry.registerWorkerRequest();
        // The list of runners tells a restarted master which ones outlived it.
        write_worker(options_.info, incarnation_, runners_->orders(), request.initInfo());
        request.setWorker(
            kj::heap<Service>(*loop_, *runners_, options_.surroundings, kj::mv(known.promise)));
        return request.send().then([fulfiller = kj::mv(known.fulfiller)](
                                       auto&& response) mutable -> Result<Answered> {
          const auto outcome = response.getOutcome();
          LEAT_RETURN_IF_ERROR(status_of(outcome));
          const auto registered = outcome.getOk();
          LEAT_ASSIGN_OR_RETURN(const auto id, read_cluster_id(registered.getClusterId().cStr()));
          // Orders to start a runner that came before this answer go on now.
          fulfiller->fulfill(std::array<uint8_t, 16>(id));
          return Answered{registered.getClusterId().cStr(), registered.getHeartAddress().cStr(),
                          registered.getHeartbeatMs()};
        });
      });
  LEAT_RETURN_IF_ERROR(answered.status());
  // This code makes the caller kill the runners, which belong to jobs of another cluster.
  if (std::exchange(cluster_id_, answered->cluster_id) != answered->cluster_id && holds) {
    return failed_precondition("the master is of another cluster than the runners here");
  }
  return Heart::Membership{
      .address = heart_address(answered->heart, options_.master),
      .worker = options_.info.worker.name,
      .incarnation = incarnation_,
      // A number that makes no sense neither floods the master nor stops the beats.
      .beat_every = std::chrono::milliseconds(std::clamp(answered->beat_ms, 10u, 10'000u))};
}

// Registers, and returns why the membership has ended, or why it did not begin. Its connection and
// heartbeat have ended when this returns.
Status MasterLink::be_member() {
  name_.taken = false;
  // This precedes the connection, whose loss may be told at any time from then on.
  outbox_.begin(incarnation_ == 0);
  RpcClientOptions options;
  options.address = options_.master;
  options.identity = options_.identity;
  options.on_lost = [this](const Status& cause) { lost(cause); };
  if (runners_->size() > 0) {  // they do not wait longer
    const auto alone = std::chrono::floor<std::chrono::milliseconds>(Steady::now() - alone_since_);
    options.deadline = std::clamp(options_.adopt_within - alone, kLeastDial, options.deadline);
  }
  auto connected = RpcClient::connect(*loop_, std::move(options));
  // A master that refuses the connection, as while one of the two has an old certificate, says
  // nothing of this incarnation.
  if (!connected.ok()) return unavailable(connected.status().message());
  const auto client = *std::move(connected);
  const bool fresh = incarnation_ == 0;
  // The number is drawn once and kept while runners wait for a master: a restarted one knows the
  // worker by it.
  if (fresh) incarnation_ = fresh_incarnation();
  const auto registered = register_with(*client);
  // The master refuses a fresh incarnation with this code only because of its name.
  name_.taken = fresh && registered.status().code() == Code::failed_precondition;
  LEAT_RETURN_IF_ERROR(registered.status());
  set_status({});
  options_.log.info("registered with the master at ", options_.master, " as ",
                    options_.info.worker.name);
  heart_->start(*registered, *runners_, [this](const Status& why) { lost(why); });
  const Status why = pass_on(*client);
  lost(why);
  heart_->stop();
  return why;
}

// Returns when the membership has ended, or when the worker stops and has sent all news.
Status MasterLink::pass_on(RpcClient& client) {
  while (true) {
    const NewsOutbox::Next next = outbox_.next();
    if (const auto* ended = std::get_if<Status>(&next)) return *ended;
    if (const auto* output = std::get_if<WorkerOutput>(&next)) {
      const Status told = tell(client, *output);
      if (refuses_lines(told)) {
        options_.log.warning("lines of job ", output->job, " are lost: ", told.message());
        continue;
      }
      // The membership ends, and this output is not sent again. The next registration lists the
      // runners that are left.
      if (!told.ok()) return told.while_doing("passing on what a runner said");
      continue;
    }
    const Status told = tell_drain(client);
    if (!told.ok()) options_.log.warning("the master does not let it drain: ", told.message());
    outbox_.told_drain();
  }
}

Status MasterLink::tell_drain(RpcClient& client) {
  return client.call<wire::Registry>("Registry.drain", kCall, [](wire::Registry::Client registry) {
    return registry.drainRequest().send().then(
        [](auto&& response) { return status_of(response.getOutcome()); });
  });
}

Status MasterLink::tell(RpcClient& client, const WorkerOutput& output) {
  const auto outcome_of = [](auto&& response) { return status_of(response.getOutcome()); };
  // Both calls are sent at once: calls of one connection arrive in their order.
  const auto send_lines = [&](wire::Registry::Client& registry) -> kj::Promise<Status> {
    if (output.lines.empty()) return Status();
    auto request = registry.logRequest();
    request.setJob(output.job);
    request.setAssembly(output.assembly);
    auto lines = request.initLines(static_cast<unsigned>(output.lines.size()));
    for (unsigned i = 0; i < lines.size(); ++i) lines.set(i, output.lines[i]);
    return request.send().then(outcome_of);
  };
  const auto send_exit = [&](wire::Registry::Client& registry) -> kj::Promise<Status> {
    if (output.end.how.empty()) return Status();
    auto request = registry.runnerExitedRequest();
    request.setJob(output.job);
    request.setAssembly(output.assembly);
    request.setHow(output.end.how);
    request.setCrashed(output.end.crashed);
    return request.send().then(outcome_of);
  };
  return client.call<wire::Registry>(
      output.end.how.empty() ? "Registry.log" : "Registry.runnerExited", kCall,
      [&](wire::Registry::Client registry) {
        auto logged = send_lines(registry);
        return logged.then([exited = send_exit(registry)](Status status) mutable {
          return status.ok() ? kj::mv(exited) : kj::Promise<Status>(std::move(status));
        });
      });
}

}  // namespace leat
