#include "daemon/client/session_client.h"

#include <kj/async.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <variant>

#include "daemon/jobs/grammar.h"
#include "daemon/wire/session_messages.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;
using Fetches = std::vector<Tensor>;

constexpr auto kAnswer = milliseconds(35'000);    // of a call that waits only for the session
constexpr auto kTransfer = milliseconds(90'000);  // of a large value, each way
constexpr auto kWatch = milliseconds(10'000);
constexpr auto kPause = milliseconds(200);  // between two attempts to connect
constexpr uint64_t kMaxFetch = uint64_t{1} << 30;

// The session's capability. It belongs to the loop.
struct Link final : LoopOwned {
  explicit Link(wire::Session::Client session) : session(kj::mv(session)) {}
  wire::Session::Client session;
};

// The answer to openSession: the id of the job, and the number of the Link that the loop has.
struct OpenedSession {
  std::string job;
  uint64_t link = 0;
};

// A value that is uploaded before the call that names it.
struct Staging {
  uint64_t number = 0;
  std::shared_ptr<const Blob> blob;
  BlobInfo info;
};

// Uploads all values at the same time. The first error counts, after all uploads have ended.
kj::Promise<Status> stage(wire::Session::Client session, std::vector<Staging> all) {
  kj::Vector<kj::Promise<Status>> uploads;
  for (const Staging& each : all) {
    auto request = session.stageRequest();
    request.setNumber(each.number);
    request.setSize(each.info.size);
    request.setSha256({each.info.sha256.data(), each.info.sha256.size()});
    uploads.add(send_blob(kj::mv(request), each.blob));
  }
  return kj::joinPromises(uploads.releaseAsArray()).then([](kj::Array<Status> all) {
    for (Status& status : all) {
      if (!status.ok()) return status.while_doing("uploading what the call takes");
    }
    return Status();
  });
}

// The fetches of a step. Those that are blobs are downloaded one after the other.
struct ArrivingResult {
  struct Value {
    TensorType type;
    kj::Maybe<wire::Download::Client> from;
    BlobInfo info;
  };
  Fetches tensors;
  std::deque<Value> values;  // a deque, because capabilities must not move
};

// Takes the values that are in the message, and what is needed to download the others.
Result<std::shared_ptr<ArrivingResult>> read_result(wire::StepResult::Reader in) {
  auto arriving = std::make_shared<ArrivingResult>();
  for (const auto each : in.getFetches()) {
    ArrivingResult::Value& value = arriving->values.emplace_back();
    Tensor& tensor = arriving->tensors.emplace_back();
    LEAT_ASSIGN_OR_RETURN(value.type, read_type(each.getType()));
    if (each.isBytes()) {
      LEAT_ASSIGN_OR_RETURN(tensor, make_tensor(value.type, bytes_of(each.getBytes())));
      continue;
    }
    value.from = each.getBlob().getContent();
    value.info.size = each.getBlob().getSize();
    LEAT_ASSIGN_OR_RETURN(value.info.sha256, read_digest(each.getBlob().getSha256()));
  }
  return arriving;
}

// Downloads the values from `index` on, one after the other, so that only one is in flight beside
// those that have arrived.
kj::Promise<Result<Fetches>> download_all(std::shared_ptr<ArrivingResult> arriving, size_t index) {
  for (; index < arriving->values.size(); ++index) {
    ArrivingResult::Value& value = arriving->values[index];
    KJ_IF_MAYBE (from, value.from) {
      return download(*from, value.info, kMaxFetch)
          .then([arriving, index](Result<Blob>&& blob) -> kj::Promise<Result<Fetches>> {
            if (!blob.ok()) return Result<Fetches>(blob.status().while_doing("reading a fetch"));
            ArrivingResult::Value& value = arriving->values[index];
            auto tensor = make_tensor(value.type, *blob);
            if (!tensor.ok()) return Result<Fetches>(tensor.status());
            arriving->tensors[index] = std::move(*tensor);
            // Gives the capability back at once, so that the master can free the value.
            value.from = nullptr;
            return download_all(arriving, index + 1);
          });
    }
  }
  return Result<Fetches>(std::move(arriving->tensors));
}

}  // namespace

// --- Steps ---

struct RemoteStepState {
  // The request.
  std::variant<Signature, CallableId> what;
  std::vector<PackedValue> feeds;
  std::vector<Staging> staging;
  uint64_t number = 0;
  uint64_t answered = 0;  // of a lasting session
  uint64_t link = 0;
  milliseconds timeout{0};  // 0: the session's
  RpcLoop* loop = nullptr;
  RemoteSession::Finished finished;

  // Set on the loop; that of a lasting session's steps reads them.
  std::atomic<bool> sent{false}, cancelled{false};
  std::atomic<bool> told{false};  // the session has answered the last request with an error

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<Fetches>> result;

  void finish(Result<Fetches> outcome) {
    {
      const std::lock_guard lock(mutex);
      result.emplace(std::move(outcome));
      changed.notify_all();
    }
    // Without the lock, and after the result is there: wait() may return before this callback does.
    if (auto tell = std::exchange(finished, nullptr)) tell();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return result.has_value(); });
  }
};

namespace {

// The capability of that number; nothing if its connection was given up. Threads: the loop's.
kj::Maybe<wire::Session::Client> session_of(RpcLoop& loop, uint64_t link) {
  const auto found = loop.context().owned.find(link);
  if (found == loop.context().owned.end()) return nullptr;
  return static_cast<Link&>(*found->second).session;
}

Status no_link() { return unavailable("the connection to the master was lost"); }

// Writes the request. The staged values are named in the order in which start() has numbered them.
void write_step(const RemoteStepState& state, wire::StepRequest::Builder out) {
  write_order({state.number, state.timeout, state.what}, out);
  out.setAnswered(state.answered);
  auto feeds = out.initFeeds(static_cast<uint32_t>(state.feeds.size()));
  size_t staged = 0;
  for (uint32_t i = 0; i < feeds.size(); ++i) {
    const PackedValue& value = state.feeds[i];
    write_type(value.tensor, feeds[i].initType());
    if (value.blob != nullptr) {
      feeds[i].initContent().setStaged(state.staging[staged++].number);
    } else {
      feeds[i].initContent().setBytes(bytes_of(value.tensor));
    }
  }
}

template <typename Outcome>
kj::Promise<Result<Fetches>> take_fetches(Outcome outcome) {
  if (outcome.isError()) return Result<Fetches>(read_status(outcome.getError()));
  auto arriving = read_result(outcome.getOk());
  if (!arriving.ok()) return Result<Fetches>(arriving.status());
  return download_all(*arriving, 0);
}

void cancel_step(RemoteStepState& state);

kj::Promise<Result<Fetches>> send_step(wire::Session::Client session,
                                       std::shared_ptr<RemoteStepState> state) {
  // cancel() may come while values are uploaded. The master does not know the step yet, so it ends
  // here.
  if (state->cancelled && !state->sent)
    return Result<Fetches>(cancelled("a step was cancelled before it began"));
  auto request = session.runRequest();
  write_step(*state, request.initStep());
  const bool again = state->sent.exchange(true);
  auto sending = request.send();
  // A cancel() that came when there was no connection.
  if (again && state->cancelled) cancel_step(*state);
  return sending.then([state](auto&& response) -> kj::Promise<Result<Fetches>> {
    const auto outcome = response.getOutcome();
    state->told = outcome.isError();
    return take_fetches(outcome);
  });
}

// Uploads the large feeds, then asks for the step. The steps of a session may overtake each other.
kj::Promise<Result<Fetches>> run_step(std::shared_ptr<RemoteStepState> state) {
  KJ_IF_MAYBE (session, session_of(*state->loop, state->link)) {
    if (state->staging.empty()) return send_step(*session, state);
    return stage(*session, state->staging)
        .then([session = *session, state](Status&& status) mutable -> kj::Promise<Result<Fetches>> {
          if (!status.ok()) return Result<Fetches>(status);
          return send_step(kj::mv(session), state);
        });
  }
  return Result<Fetches>(no_link());
}

// Threads: the loop's.
void cancel_step(RemoteStepState& state) {
  state.cancelled = true;
  if (!state.sent) return;
  KJ_IF_MAYBE (session, session_of(*state.loop, state.link)) {
    auto request = session->cancelRequest();
    request.setNumber(state.number);
    LoopContext& context = state.loop->context();
    // The answer does not matter: run() itself ends with `cancelled`, or with the result that came
    // first.
    context.tasks.add(
        within(request.send().ignoreResult(), context.timer, kAnswer, "Session.cancel")
            .then([](Status&&) {}));
  }
}

}  // namespace

RemoteStep::RemoteStep(std::shared_ptr<RemoteStepState> state) : state_(std::move(state)) {}
RemoteStep::RemoteStep(RemoteStep&& other) noexcept = default;

RemoteStep::~RemoteStep() {
  if (state_ == nullptr) return;
  cancel();
  state_->wait();
}

Result<std::vector<Tensor>> RemoteStep::wait() {
  const auto state = std::exchange(state_, nullptr);
  state->wait();
  return std::move(*state->result);
}

bool RemoteStep::over() const {
  const std::lock_guard lock(state_->mutex);
  return state_->result.has_value();
}

void RemoteStep::cancel() {
  if (state_ == nullptr || over()) return;
  (void)state_->loop->post([state = state_] { cancel_step(*state); });
}

// --- The session ---

// `unavailable`, unless it is useless to ask a session again after this error.
Status final_or_again(const Status& error) {
  const bool final =
      error.code() == Code::failed_precondition || error.code() == Code::invalid_argument;
  return final ? error : unavailable(error.message());
}

// The steps of a lasting session, which a thread asks for one after the other.
class StepQueue {
 public:
  using State = std::shared_ptr<RemoteStepState>;
  using Run = std::function<Result<Fetches>(const State&)>;

  explicit StepQueue(Run run) : run_(std::move(run)), thread_([this] { work(); }) {}
  // Ends the steps that wait with `cancelled`, and waits for the one that is being asked for.
  ~StepQueue() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  // resource_exhausted if too many wait.
  Status add(const State& state) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMost)
      return resource_exhausted(cat(kMost, " steps of the session wait; expected fewer"));
    waiting_.push_back(state);
    changed_.notify_all();
    return {};
  }

  // Waits until all steps that were added are over.
  void await_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  }

 private:
  static constexpr size_t kMost = 4'096;

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const State state = std::move(waiting_.front());
      waiting_.pop_front();
      const bool stop = stop_;
      busy_ = true;
      lock.unlock();
      state->finish(stop
                        ? Result<Fetches>(cancelled("the session was closed before the step began"))
                        : run_(state));
      lock.lock();
    }
  }

  const Run run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<State> waiting_;
  bool stop_ = false, busy_ = false;
  std::thread thread_;
};

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
    if (!attached_.empty()) LEAT_RETURN_IF_ERROR(learn_version());
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
        [state](Result<Fetches> result) { state->finish(std::move(result)); });
    return RemoteStep(state);
  }

  // Gives the large feeds their numbers. Returns the bound of the call: the master ends the step in
  // time, and the bound is for a master that does not answer at all, so it allows for all
  // transfers.
  milliseconds number_staging(const RemoteStepState& state, std::vector<Staging>& staging) {
    milliseconds within = options_.timeout + kAnswer + kTransfer + state.timeout;
    for (const PackedValue& value : state.feeds) {
      if (value.blob == nullptr) continue;
      staging.push_back({next_number_++, value.blob, value.info});
      within += kTransfer;
    }
    return within;
  }

  // --- Lasting sessions ---

  // Asks for a step until there is an outcome. Threads: that of the steps.
  Result<Fetches> run_lasting(const std::shared_ptr<RemoteStepState>& state) {
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
  void await_steps() {
    if (steps_ != nullptr) steps_->await_all();
  }

  Result<uint64_t> steps() { return patient<uint64_t>("Session.state", kAnswer, steps_of); }

  Result<Fetches> outcome(uint64_t step) {
    // The inner result is the session's answer, which is not asked for again.
    using Answer = Result<Fetches>;
    LEAT_ASSIGN_OR_RETURN(
        const std::shared_ptr<Answer> answer,
        patient<std::shared_ptr<Answer>>(
            "Session.outcome", kAnswer + kTransfer, [step](wire::Session::Client session) {
              auto request = session.outcomeRequest();
              request.setNumber(step);
              return request.send().then(
                  [](auto&& response) -> kj::Promise<Result<std::shared_ptr<Answer>>> {
                    const auto outcome = response.getOutcome();
                    const bool error = outcome.isError();
                    return take_fetches(outcome).then(
                        [error](Answer&& got) -> Result<std::shared_ptr<Answer>> {
                          if (!got.ok() && !error) return got.status();
                          return std::make_shared<Answer>(std::move(got));
                        });
                  });
            }));
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
    std::vector<Staging> staging;
    // A large graph is uploaded first, like a large feed.
    if (blob->size() > kInlineBytes) staging.push_back({next_number_++, blob, describe(*blob)});
    const milliseconds deadline = staging.empty() ? kAnswer : kAnswer + kTransfer;
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
    (void)call_over<Nothing>(link, "Session.close", kAnswer, [](wire::Session::Client session) {
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
  Result<Fetches> try_lasting(const std::shared_ptr<RemoteStepState>& state, uint64_t& number) {
    const auto link = this->link();
    if (!link.ok()) return final_or_again(link.status());
    if (number == 0 && !numbering_.known) {
      const auto taken = ask_state();
      if (!taken.ok()) return final_or_again(taken.status());
      numbering_ = {*taken, true};
    }
    if (number == 0) number = ++numbering_.last;
    std::vector<Staging> staging;
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

  Result<uint64_t> ask_state() { return call<uint64_t>("Session.state", kAnswer, steps_of); }
  static kj::Promise<Result<uint64_t>> steps_of(wire::Session::Client session) {
    return session.stateRequest().send().then([](auto&& response) -> Result<uint64_t> {
      const auto outcome = response.getOutcome();
      if (outcome.isError()) return read_status(outcome.getError());
      return outcome.getOk().getSteps();
    });
  }
  Status learn_version() {
    LEAT_ASSIGN_OR_RETURN(
        const uint64_t now, patient<uint64_t>("Session.state", kAnswer, [](auto session) {
          return session.stateRequest().send().then([](auto&& response) -> Result<uint64_t> {
            const auto outcome = response.getOutcome();
            if (outcome.isError()) return read_status(outcome.getError());
            return outcome.getOk().getVersion();
          });
        }));
    version = now;
    return {};
  }
  bool is_lost() const { return client_ == nullptr || *lost_; }

  template <typename T, typename F>
  Result<T> call_over(uint64_t link, const char* what, milliseconds deadline, F function) {
    auto on_loop = [this, link,
                    function = std::move(function)]() mutable -> kj::Promise<Result<T>> {
      // The connection may have been replaced since the caller asked for its number.
      KJ_IF_MAYBE (session, session_of(*loop_, link)) return function(*session);
      return Result<T>(no_link());
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
    options.deadline = cluster_.connect_deadline;
    options.on_lost = [lost](const Status&) { *lost = true; };
    LEAT_ASSIGN_OR_RETURN(client_, RpcClient::connect(*loop_, std::move(options)));
    lost_ = lost;
    auto opened = client_->call<wire::Master>(
        attached_.empty() ? "Master.openSession" : "Master.attachSession", kAnswer,
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
    opened.link = loop_->context().own(kj::heap<Link>(outcome.getOk().getSession()));
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

Result<uint64_t> RemoteSession::steps() { return core_->steps(); }
Result<std::vector<Tensor>> RemoteSession::outcome(uint64_t step) { return core_->outcome(step); }

Status RemoteSession::save() {
  return core_
      ->patient<bool>(
          "Session.save", kAnswer,
          [](wire::Session::Client session) {
            return session.saveRequest().send().then([](auto&& response) -> Result<bool> {
              LEAT_RETURN_IF_ERROR(status_of(response.getOutcome()));
              return true;
            });
          })
      .status();
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
      "Session.makeCallable", kAnswer, [signature](wire::Session::Client session) {
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
  core_->await_steps();
  return core_
      ->call<bool>("Session.releaseCallable", kAnswer,
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
