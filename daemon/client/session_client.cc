#include "daemon/client/session_client.h"

#include <kj/async.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <variant>

#include "daemon/client/step_queue.h"
#include "daemon/client/wire_remote_step.h"
#include "daemon/jobs/grammar.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr auto kWatch = milliseconds(10'000);
constexpr auto kPause = milliseconds(200);  // between two attempts to connect

// The answer to openSession: the id of the job, and the number of the SessionLink that the loop
// has.
struct OpenedSession {
  std::string job;
  uint64_t link = 0;
};

// The steps that a lasting session has taken, and the version of its graph.
struct LastingState {
  uint64_t steps = 0, version = 0;
};

kj::Promise<Result<LastingState>> ask_state(wire::Session::Client session) {
  return session.stateRequest().send().then([](auto&& response) -> Result<LastingState> {
    const auto outcome = response.getOutcome();
    if (outcome.isError()) return read_status(outcome.getError());
    return LastingState{outcome.getOk().getSteps(), outcome.getOk().getVersion()};
  });
}

// The answer of a session about the outcome of a step. It is not asked again for the error of a
// step.
using AnsweredOutcome = Result<StepFetches>;
kj::Promise<Result<std::shared_ptr<AnsweredOutcome>>> ask_outcome(wire::Session::Client session,
                                                                  uint64_t step) {
  auto request = session.outcomeRequest();
  request.setNumber(step);
  return request.send().then(
      [](auto&& response) -> kj::Promise<Result<std::shared_ptr<AnsweredOutcome>>> {
        const auto outcome = response.getOutcome();
        if (outcome.isError()) {
          Status error = read_status(outcome.getError());
          // No step ends so: the session itself is not there.
          if (error.code() == Code::unavailable)
            return Result<std::shared_ptr<AnsweredOutcome>>(error);
          return Result(std::make_shared<AnsweredOutcome>(std::move(error)));
        }
        return download_fetches(outcome.getOk())
            .then([](AnsweredOutcome&& got) -> Result<std::shared_ptr<AnsweredOutcome>> {
              // It may arrive whole when it is asked for again.
              if (!got.ok()) return unavailable(got.status().message());
              return std::make_shared<AnsweredOutcome>(std::move(got));
            });
      });
}

// `unavailable`, unless it is useless to ask a session again after this error.
Status final_or_again(const Status& error) {
  const bool final =
      error.code() == Code::failed_precondition || error.code() == Code::invalid_argument;
  return final ? error : unavailable(error.message());
}

}  // namespace

class RemoteSession::Core {
 public:
  // `attached`: the id of the job of a lasting session that is there; "": makes a session.
  Core(ClusterClientOptions cluster, RemoteSessionOptions options, std::unique_ptr<RpcLoop> loop,
       std::string attached)
      : cluster_(std::move(cluster)),
        options_(std::move(options)),
        attached_(std::move(attached)),
        loop_(std::move(loop)) {
    if (lasts())
      steps_ =
          std::make_unique<StepQueue>([this](const auto& state) { return run_lasting(state); });
  }

  bool lasts() const { return options_.lasts() || !attached_.empty(); }

  const std::string& job() const { return job_; }
  const RemoteSessionOptions& options() const { return options_; }
  std::atomic<uint64_t> version{0};

  // Connects, which opens the session, and waits until its job has all workers.
  Status open() {
    const auto give_up = Steady::now() + options_.wait;
    while (true) {
      const Status linked = this->link().status();
      if (linked.ok()) break;
      // After a restart of the master, it takes a moment until a lasting session is there.
      if (attached_.empty() || linked.code() != Code::unavailable ||
          Steady::now() + kPause > give_up)
        return linked;
      std::this_thread::sleep_for(kPause);
    }
    LEAT_RETURN_IF_ERROR(await_workers());
    if (attached_.empty()) return {};
    LEAT_ASSIGN_OR_RETURN(const LastingState now, state());
    version = now.version;
    return {};
  }

  // The client lets go of a lasting session, which goes on.
  void detach() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    steps_.reset();
  }

  // Calls a method that answers with a T. `function` takes a Session::Client and returns a promise
  // for a Result<T>.
  template <typename T, typename F>
  Result<T> call(const char* what, milliseconds deadline, F function) {
    LEAT_ASSIGN_OR_RETURN(const uint64_t link, this->link());
    return call_over<T>(link, what, deadline, std::move(function));
  }

  Result<RemoteStep> start(std::variant<Signature, CallableId> what,
                           std::span<const Tensor> tensors, Deadline deadline, Finished finished) {
    const auto state = std::make_shared<RemoteStepState>();
    state->what = std::move(what);
    state->feeds = pack_values(tensors);
    state->loop = loop_.get();
    state->finished = std::move(finished);
    if (deadline) {
      const auto left = std::chrono::ceil<milliseconds>(*deadline - Steady::now());
      state->timeout = std::clamp(left, milliseconds(1), milliseconds(INT32_MAX));
    }
    if (steps_ != nullptr) {
      LEAT_RETURN_IF_ERROR(steps_->add(state));
      return RemoteStep(state);
    }
    LEAT_ASSIGN_OR_RETURN(const uint64_t link, this->link());
    // Steps and staged values share one counter, so no number is used twice on a connection.
    state->number = next_number_++;
    state->link = link;
    const milliseconds within = number_staging(*state, state->staging);
    start_call(
        *loop_, [state] { return run_step(state); }, within, subject(),
        [state](Result<StepFetches> result) { state->finish(std::move(result)); });
    return RemoteStep(state);
  }

  // Gives the large feeds their numbers. Returns the bound of the call: the master ends the step in
  // time, and the bound is for a master that does not answer at all, so it allows for all
  // transfers.
  milliseconds number_staging(const RemoteStepState& state, std::vector<UploadedValue>& staging) {
    milliseconds within = options_.timeout + kSessionAnswer + kSessionTransfer + state.timeout;
    for (const PackedValue& value : state.feeds) {
      if (value.blob == nullptr) continue;
      staging.push_back({next_number_++, value.blob, value.info});
      within += kSessionTransfer;
    }
    return within;
  }

  // --- Lasting sessions ---

  // Asks for a step until there is an outcome. Threads: that of the steps.
  Result<StepFetches> run_lasting(const std::shared_ptr<RemoteStepState>& state) {
    uint64_t number = 0;
    std::optional<Steady::time_point> give_up;
    while (true) {
      auto done = try_lasting(state, number);
      if (done.ok()) return done;
      // The step may not have been taken, so that the next one asks for its number.
      if (done.status().code() != Code::unavailable) {
        numbering_.known = false;
        return done;
      }
      if (is_closed()) return cancelled(cat(subject(), " was closed before a step was over"));
      if (!give_up) give_up = Steady::now() + options_.patience;
      if (Steady::now() + kPause > *give_up) {
        numbering_.known = false;
        return done;
      }
      std::this_thread::sleep_for(kPause);
    }
  }
  // For calls that must not come before the steps that were started.
  Status await_steps() {
    return steps_ != nullptr ? steps_->await_all(Steady::now() + options_.patience) : Status();
  }

  Result<LastingState> state() {
    return patient<LastingState>("Session.state", kSessionAnswer, ask_state);
  }

  Result<StepFetches> outcome(uint64_t step) {
    const auto ask = [step](wire::Session::Client session) {
      return ask_outcome(kj::mv(session), step);
    };
    LEAT_ASSIGN_OR_RETURN(const std::shared_ptr<AnsweredOutcome> answer,
                          patient<std::shared_ptr<AnsweredOutcome>>(
                              "Session.outcome", kSessionAnswer + kSessionTransfer, ask));
    return std::move(*answer);
  }

  // The same call again after the connection or the workers were lost.
  template <typename T, typename F>
  Result<T> patient(const char* what, milliseconds deadline, F function) {
    const auto give_up = Steady::now() + (lasts() ? options_.patience : milliseconds(0));
    while (true) {
      Result<T> done = call<T>(what, deadline, function);
      const Code code = done.status().code();
      // The master answers in time unless the session waits for workers.
      const bool again = code == Code::unavailable || code == Code::deadline_exceeded;
      if (done.ok() || !again || is_closed() || Steady::now() + kPause > give_up) return done;
      std::this_thread::sleep_for(kPause);
    }
  }

  Result<uint64_t> extend(uint64_t version, const Graph& graph) {
    LEAT_ASSIGN_OR_RETURN(Bytes bytes, write_graph(graph));
    const auto blob = std::make_shared<const Blob>(std::move(bytes));
    std::vector<UploadedValue> staging;
    // A large graph is uploaded first, like a large feed.
    if (blob->size() > kInlineBytes) staging.push_back({next_number_++, blob, describe(*blob)});
    const milliseconds deadline =
        staging.empty() ? kSessionAnswer : kSessionAnswer + kSessionTransfer;
    auto ask = [version, blob, staging, ids = graph.inputs()](wire::Session::Client session) {
      return stage(session, staging)
          .then([=](Status&& status) mutable -> kj::Promise<Result<uint64_t>> {
            if (!status.ok()) return Result<uint64_t>(status);
            auto request = session.extendRequest();
            request.setVersion(version);
            if (!staging.empty()) {
              request.initGraph().setStaged(staging[0].number);
            } else {
              request.initGraph().setBytes(
                  {reinterpret_cast<const kj::byte*>(blob->data()), blob->size()});
            }
            auto list = request.initInputIds(static_cast<uint32_t>(ids.size()));
            for (uint32_t i = 0; i < list.size(); ++i) list.set(i, ids[i]);
            return request.send().then([](auto&& response) -> Result<uint64_t> {
              const auto outcome = response.getOutcome();
              if (outcome.isError()) return read_status(outcome.getError());
              return outcome.getOk().getVersion();
            });
          });
    };
    LEAT_ASSIGN_OR_RETURN(const uint64_t made,
                          patient<uint64_t>("Session.extend", deadline, std::move(ask)));
    this->version = made;
    return made;
  }

  void close() {
    uint64_t link = 0;
    {
      const std::lock_guard lock(mutex_);
      // Without a job the session was never opened, and there is nothing to close.
      if (std::exchange(closed_, true) || job_.empty()) return;
      if (is_lost() && !connect().ok()) return;  // its job ends when the lease does
      link = link_;
    }
    (void)call_over<Nothing>(
        link, "Session.close", kSessionAnswer, [](wire::Session::Client session) {
          return session.closeRequest().send().then([](auto&& response) -> Result<Nothing> {
            LEAT_RETURN_IF_ERROR(status_of(response.getOutcome()));
            return Nothing();
          });
        });
  }

 private:
  struct Nothing {};

  std::string subject() const {
    return cat("session '", attached_.empty() ? options_.name : attached_, "'");
  }
  bool is_closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  // One attempt. `number` becomes that of the step, which is the next one: the session knows it.
  // `unavailable` stands for all errors that do not say how the step ended.
  Result<StepFetches> try_lasting(const std::shared_ptr<RemoteStepState>& state, uint64_t& number) {
    const auto link = this->link();
    if (!link.ok()) return final_or_again(link.status());
    if (number == 0 && !numbering_.known) {
      const auto now = call<LastingState>("Session.state", kSessionAnswer, ask_state);
      if (!now.ok()) return final_or_again(now.status());
      numbering_ = {now->steps, true};
    }
    if (number == 0) number = ++numbering_.last;
    std::vector<UploadedValue> staging;
    const milliseconds within = number_staging(*state, staging);
    // cancel() reads these on the loop.
    auto ask = [state, number, link = *link, staging] {
      state->number = number;
      // A client that goes on with a step has what it wants of those before it.
      state->answered = number - 1;
      state->link = link;
      state->staging = staging;
      state->told = false;
      return run_step(state);
    };
    auto done = leat::call(*loop_, std::move(ask), within, subject());
    if (done.ok() || state->told) return done;
    if (state->cancelled && !state->sent) return done;  // before it began
    return unavailable(done.status().message());
  }

  bool is_lost() const { return client_ == nullptr || *lost_; }

  template <typename T, typename F>
  Result<T> call_over(uint64_t link, const char* what, milliseconds deadline, F function) {
    auto on_loop = [this, link,
                    function = std::move(function)]() mutable -> kj::Promise<Result<T>> {
      // The connection may have been replaced since the caller asked for its number.
      KJ_IF_MAYBE (session, session_of(*loop_, link)) return function(*session);
      return Result<T>(no_session_link());
    };
    return leat::call(*loop_, std::move(on_loop), deadline, what);
  }

  // Returns the capability on the current connection, or on a new one.
  Result<uint64_t> link() {
    const std::lock_guard lock(mutex_);
    // The lock is held meanwhile: all callers need the same connection, and one of them makes it.
    const auto give_up = Steady::now() + cluster_.patience;
    for (;;) {
      if (closed_) return failed_precondition(cat(subject(), " is closed"));
      if (!is_lost()) return link_;
      const Status status = connect();
      if (status.ok()) return link_;
      // If the first connection fails, the caller gets the error; later ones are tried again.
      const bool again = status.code() == Code::unavailable && !job_.empty();
      if (!again || Steady::now() + kPause > give_up) return status;
      std::this_thread::sleep_for(kPause);
    }
  }

  // REQUIRES: the caller holds the mutex.
  Status connect() {
    // The capability of the old connection goes first, because it belongs to that connection.
    if (link_ != 0) loop_->run([this] { loop_->context().release(link_); });
    link_ = 0;
    client_.reset();
    // A flag for each connection, so that an old one cannot mark the new one as lost.
    const auto lost = std::make_shared<std::atomic<bool>>(false);
    RpcClientOptions options;
    options.address = cluster_.address;
    options.identity.role = RpcRole::client;
    options.identity.cluster = cluster_.cluster;
    options.identity.secret = cluster_.secret;
    options.identity.seal = cluster_.seal;
    if (cluster_.renew) cluster_.renew();
    options.identity.certificates = cluster_.certificates;
    options.deadline = cluster_.connect_deadline;
    options.on_lost = [lost](const Status&) { *lost = true; };
    LEAT_ASSIGN_OR_RETURN(client_, RpcClient::connect(*loop_, std::move(options)));
    lost_ = lost;
    auto opened = client_->call<wire::Master>(
        attached_.empty() ? "Master.openSession" : "Master.attachSession", kSessionAnswer,
        [this](wire::Master::Client master) {
          return attached_.empty() ? open_session(kj::mv(master)) : attach_session(kj::mv(master));
        });
    if (!opened.ok()) {
      client_.reset();
      return opened.status();
    }
    job_ = opened->job;
    link_ = opened->link;
    return {};
  }

  kj::Promise<Result<OpenedSession>> open_session(wire::Master::Client master) {
    auto request = master.openSessionRequest();
    // With the same request id, the master answers with the same session on every connection.
    write_opening({request_id_, static_cast<uint32_t>(std::max(0, options_.workers)), options_,
                   options_.gpus ? 1u : 0u},
                  request.initRequest());
    return request.send().then(
        [this](auto&& response) { return take_opened(response.getOutcome()); });
  }

  kj::Promise<Result<OpenedSession>> attach_session(wire::Master::Client master) {
    auto request = master.attachSessionRequest();
    request.setJob(attached_.c_str());
    request.setClient(request_id_.c_str());
    return request.send().then(
        [this](auto&& response) { return take_opened(response.getOutcome()); });
  }

  template <typename Outcome>
  Result<OpenedSession> take_opened(Outcome outcome) {
    if (outcome.isError()) return read_status(outcome.getError());
    OpenedSession opened;
    opened.job = to_string(outcome.getOk().getJob());
    if (!is_job_id(opened.job)) {
      return internal_error(
          cat("a session: expected the id of its job, received ", quoted_start(opened.job)));
    }
    opened.link = loop_->context().own(kj::heap<SessionLink>(outcome.getOk().getSession()));
    return opened;
  }

  Status await_workers() {
    const auto give_up = Steady::now() + options_.wait;
    // 0 is below every version, so the first call is answered at once.
    uint64_t seen = 0;
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(give_up - Steady::now());
      const milliseconds wait = std::clamp(left, milliseconds(0), kWatch);
      const auto watch = [job = job_, seen, wait](wire::Master::Client master) {
        auto request = master.watchRequest();
        request.setId(job.c_str());
        request.setSeen(seen);
        request.setWaitMs(static_cast<uint32_t>(wait.count()));
        return request.send().then([](auto&& response) -> Result<JobView> {
          const auto outcome = response.getOutcome();
          if (outcome.isError()) return read_status(outcome.getError());
          return read_view(outcome.getOk());
        });
      };
      LEAT_ASSIGN_OR_RETURN(
          const JobView view,
          client_->call<wire::Master>("Master.watch", cluster_.deadline + wait, watch));
      const JobCondition& now = view.condition;
      // The session's job runs from the moment when it has all of its workers.
      if (now.state == JobState::running) return {};
      const std::string text = cat(name_of(now.state), now.reason.empty() ? "" : ": ", now.reason);
      if (has_ended(now.state) || now.state == JobState::cancelling)
        return unavailable(cat(subject(), " did not begin: its job '", job_, "' is ", text));
      if (Steady::now() >= give_up) {
        return deadline_exceeded(cat(subject(), " got no workers within ", options_.wait.count(),
                                     " ms: its job '", job_, "' is ", text));
      }
      seen = view.version;
    }
  }

  const ClusterClientOptions cluster_;
  const RemoteSessionOptions options_;
  const std::string attached_;
  const std::string request_id_ = new_request_id();
  std::atomic<uint64_t> next_number_{1};
  std::mutex mutex_;
  std::string job_;  // written once, by open()
  bool closed_ = false;
  uint64_t link_ = 0;
  std::shared_ptr<std::atomic<bool>> lost_;
  const std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<RpcClient> client_;

  // Of the steps of a lasting session, for their thread.
  struct Numbering {
    uint64_t last = 0;   // the last step
    bool known = false;  // `last` is that of the session
  };
  Numbering numbering_;
  std::unique_ptr<StepQueue> steps_;  // null: the session is no lasting one
};

RemoteSession::RemoteSession(std::unique_ptr<Core> core) : core_(std::move(core)) {}
RemoteSession::~RemoteSession() { core_->lasts() ? core_->detach() : core_->close(); }

Result<std::unique_ptr<RemoteSession>> RemoteSession::open(ClusterClientOptions cluster,
                                                           RemoteSessionOptions options) {
  LEAT_ASSIGN_OR_RETURN(std::unique_ptr<RpcLoop> loop, RpcLoop::start({}, RpcLoop::kSpin));
  std::unique_ptr<RemoteSession> session(new RemoteSession(
      std::make_unique<Core>(std::move(cluster), std::move(options), std::move(loop), "")));
  const Status opened = session->core_->open();
  // The job of a session that did not begin leaves the queue.
  if (!opened.ok()) session->core_->close();
  LEAT_RETURN_IF_ERROR(opened);
  return session;
}

Result<std::unique_ptr<RemoteSession>> RemoteSession::attach(ClusterClientOptions cluster,
                                                             const std::string& job,
                                                             RemoteSessionOptions options) {
  LEAT_ASSIGN_OR_RETURN(std::unique_ptr<RpcLoop> loop, RpcLoop::start({}, RpcLoop::kSpin));
  std::unique_ptr<RemoteSession> session(new RemoteSession(
      std::make_unique<Core>(std::move(cluster), std::move(options), std::move(loop), job)));
  LEAT_RETURN_IF_ERROR(session->core_->open());
  return session;
}

Result<uint64_t> RemoteSession::steps() {
  LEAT_ASSIGN_OR_RETURN(const auto now, core_->state());
  return now.steps;
}
Result<std::vector<Tensor>> RemoteSession::outcome(uint64_t step) { return core_->outcome(step); }

Status RemoteSession::save() {
  LEAT_RETURN_IF_ERROR(core_->await_steps());
  const auto ask = [](wire::Session::Client session) {
    return session.saveRequest().send().then([](auto&& response) -> Result<bool> {
      LEAT_RETURN_IF_ERROR(status_of(response.getOutcome()));
      return true;
    });
  };
  // A large state takes its time.
  return core_->patient<bool>("Session.save", core_->options().patience, ask).status();
}

const std::string& RemoteSession::job() const { return core_->job(); }
uint64_t RemoteSession::version() const { return core_->version; }

Result<uint64_t> RemoteSession::extend(uint64_t version, const Graph& graph) {
  return core_->extend(version, graph);
}

Result<RemoteStep> RemoteSession::start(const Feeds& feeds, const std::vector<std::string>& fetches,
                                        const std::vector<std::string>& targets, Deadline deadline,
                                        Finished finished) {
  std::vector<Tensor> tensors;
  Signature signature = signature_of(feeds, fetches, targets, tensors);
  return core_->start(std::move(signature), tensors, deadline, std::move(finished));
}

Result<std::vector<Tensor>> RemoteSession::run(const Feeds& feeds,
                                               const std::vector<std::string>& fetches,
                                               const std::vector<std::string>& targets,
                                               Deadline deadline) {
  LEAT_ASSIGN_OR_RETURN(RemoteStep step, start(feeds, fetches, targets, deadline));
  return step.wait();
}

Result<RemoteStep> RemoteSession::start_callable(CallableId id, const std::vector<Tensor>& feeds,
                                                 Deadline deadline, Finished finished) {
  return core_->start(id, feeds, deadline, std::move(finished));
}

Result<std::vector<Tensor>> RemoteSession::run_callable(CallableId id,
                                                        const std::vector<Tensor>& feeds,
                                                        Deadline deadline) {
  LEAT_ASSIGN_OR_RETURN(RemoteStep step, start_callable(id, feeds, deadline));
  return step.wait();
}

Result<CallableId> RemoteSession::make_callable(const Signature& signature) {
  return core_->patient<CallableId>(
      "Session.makeCallable", kSessionAnswer, [signature](wire::Session::Client session) {
        auto request = session.makeCallableRequest();
        write_signature(signature, request.initSignature());
        return request.send().then([](auto&& response) -> Result<CallableId> {
          const auto outcome = response.getOutcome();
          if (outcome.isError()) return read_status(outcome.getError());
          return outcome.getOk().getId();
        });
      });
}

Status RemoteSession::release_callable(CallableId id) {
  LEAT_RETURN_IF_ERROR(core_->await_steps());
  return core_
      ->call<bool>("Session.releaseCallable", kSessionAnswer,
                   [id](wire::Session::Client session) {
                     auto request = session.releaseCallableRequest();
                     request.setCallable(id);
                     return request.send().then([](auto&& response) -> Result<bool> {
                       LEAT_RETURN_IF_ERROR(status_of(response.getOutcome()));
                       return true;
                     });
                   })
      .status();
}

void RemoteSession::close() { core_->close(); }

}  // namespace leat
