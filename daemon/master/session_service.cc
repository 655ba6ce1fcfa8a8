#include <map>

#include "daemon/master/lasting_host.h"
#include "daemon/master/wire_replies.h"
#include "daemon/master/wire_session_service.h"
#include "daemon/wire/session_messages.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/service.h"

namespace leat {
namespace {

// A call may take this long; a step gets it on top of its own timeout.
constexpr auto kSessionAnswer = std::chrono::seconds(30);
// One upload has this many bytes at most.
constexpr uint64_t kMaxStaged = 256u << 20;
constexpr auto kUpload = std::chrono::seconds(90);
constexpr auto kPatience = std::chrono::seconds(3'600);

// Bytes that came before the call that names them; counted as long as they are here.
struct Staged {
  std::shared_ptr<const Blob> blob;
  std::shared_ptr<void> permit;
};

// A feed as it came.
struct Fed {
  TensorType type;
  Tensor tensor;  // what came in the message
  Staged staged;  // else its bytes
};

struct Fetched {
  PackedValue value;
  std::shared_ptr<const Blob> blob;  // with its permit
};

// Copies what is large: not for the loop.
Result<std::vector<Tensor>> tensors_of(const std::vector<Fed>& feeds) {
  std::vector<Tensor> tensors;
  for (const Fed& fed : feeds) {
    tensors.push_back(fed.tensor);
    if (fed.staged.blob == nullptr) continue;
    LEAT_ASSIGN_OR_RETURN(tensors.back(), make_tensor(fed.type, *fed.staged.blob));
  }
  return tensors;
}

// Packs the fetches of a step for its answer, on one of the host's threads. Those that are too many
// for the message become blobs, which count for the session until the client has dropped them.
Result<std::vector<Fetched>> fetched_of(SessionHost& host, const std::vector<Tensor>& tensors) {
  std::vector<Fetched> all;
  for (PackedValue& value : pack_values(tensors)) {
    Fetched& fetched = all.emplace_back();
    if (value.blob != nullptr) {
      auto permit = host.bytes().take(value.blob->size());
      if (permit == nullptr) {
        return resource_exhausted(cat("the step has run; its fetches, ",
                                      human_bytes(value.blob->size()),
                                      " of them in one, are more than the session may hold"));
      }
      // The permit returns with the last copy of this pointer.
      fetched.blob = {value.blob.get(), [blob = value.blob, permit](const Blob*) {}};
    }
    fetched.value = std::move(value);
  }
  return all;
}

void write_fetched(const Fetched& fetched, wire::FetchedValue::Builder out) {
  write_type(fetched.value.tensor, out.initType());
  if (fetched.blob == nullptr) return out.setBytes(bytes_of(fetched.value.tensor));
  auto blob = out.initBlob();
  blob.setSize(fetched.value.info.size);
  blob.setSha256({fetched.value.info.sha256.data(), fetched.value.info.sha256.size()});
  blob.setContent(offer_download(fetched.blob));
}

constexpr auto write_all = [](const std::vector<Fetched>& all, auto outcome) {
  auto fetches = outcome.initOk().initFetches(static_cast<uint32_t>(all.size()));
  for (uint32_t i = 0; i < fetches.size(); ++i) write_fetched(all[i], fetches[i]);
};

// Holds a session for one client: while one of these objects lives, the session's lease does not
// run.
class SessionServer final : public Service<wire::Session> {
 public:
  SessionServer(RpcLoop& loop, SessionHosts& hosts, std::shared_ptr<SessionHost> host,
                std::string client, std::shared_ptr<ByteBudget> uploads)
      : loop_(loop),
        hosts_(hosts),
        host_(std::move(host)),
        client_(std::move(client)),
        uploads_(std::move(uploads)) {
    host_->lease().hold();
  }
  ~SessionServer() noexcept(false) {
    // The lease begins to run, and the master looks at its end whether another client came.
    host_->lease().release();
    hosts_.left(host_);
  }

 protected:
  kj::Promise<void> stage(StageContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    const auto params = context.getParams();
    const auto digest = read_digest(params.getSha256());
    if (!digest.ok()) return refuse(digest.status(), context);
    // The bytes count from the start of the upload on, until the call that names them is done with
    // them.
    const auto permit = host_->bytes().take(params.getSize());
    if (permit == nullptr) {
      return refuse(resource_exhausted(cat("stage: ", human_bytes(params.getSize()),
                                           " more are more than the session may hold")),
                    context);
    }
    auto sink = receive_upload(
        {params.getSize(), *digest}, {.bytes = kMaxStaged, .deadline = kUpload}, uploads_, timer(),
        // The upload may end after this object; then the map goes with the upload.
        [staged = staged_, number = params.getNumber(), permit](Blob blob) -> Status {
          (*staged)[number] = {std::make_shared<const Blob>(std::move(blob)), permit};
          return {};
        });
    if (!sink.ok()) return refuse(sink.status(), context);
    context.getResults().initOutcome().setOk(*sink);
    return kj::READY_NOW;
  }

  kj::Promise<void> extend(ExtendContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    const auto params = context.getParams();
    auto file = take(params.getGraph());
    if (!file.ok()) return refuse(file.status(), context);
    LoggedGraph graph{params.getVersion(), {}, *file->blob};
    for (const uint32_t id : params.getInputIds()) graph.input_ids.push_back(id);
    auto extended = answered_elsewhere<uint64_t>(loop_, "Session.extend");
    auto call = host_->extend(std::move(graph), std::move(extended.done));
    return reply(bounded(kj::mv(extended.promise), "Session.extend", call), context,
                 [](uint64_t version, auto outcome) { outcome.initOk().setVersion(version); });
  }

  kj::Promise<void> makeCallable(MakeCallableContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    auto made = answered_elsewhere<CallableId>(loop_, "Session.makeCallable");
    auto call = host_->make_callable(read_signature(context.getParams().getSignature()),
                                     std::move(made.done));
    return reply(bounded(kj::mv(made.promise), "Session.makeCallable", call), context,
                 [](CallableId id, auto outcome) { outcome.initOk().setId(id); });
  }

  kj::Promise<void> releaseCallable(ReleaseCallableContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    auto released = answered_elsewhere<void>(loop_, "Session.releaseCallable");
    auto call =
        host_->release_callable(context.getParams().getCallable(), std::move(released.done));
    return bounded(kj::mv(released.promise), "Session.releaseCallable", call)
        .then([context](Status&& status) mutable {
          answer(status, context.getResults().initOutcome());
        });
  }

  kj::Promise<void> run(RunContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    const auto in = context.getParams().getStep();
    StepOrder order = read_order(in);
    const uint64_t number = order.number;
    HostedRequest request;
    request.number = number;
    request.answered = in.getAnswered();
    request.timeout = order.timeout;
    request.what = std::move(order.what);
    auto feeds = read_feeds(in.getFeeds());
    if (!feeds.ok()) return refuse(feeds.status(), context);
    request.feeds = [feeds = std::move(*feeds)] { return tensors_of(feeds); };
    using All = std::vector<Fetched>;
    auto over = answered_elsewhere<All>(loop_, "Session.run");
    const auto step =
        host_->run(std::move(request), [host = host_, done = std::move(over.done)](auto fetches) {
          done(fetches.ok() ? fetched_of(*host, *fetches) : Result<All>(fetches.status()));
        });
    (*steps_)[number] = step;
    // The promise ends with the answer, with its deadline, or with the caller; a step that is still
    // in flight is then cancelled. A later step may have the same number, and stays in the map.
    auto gone = kj::defer([host = host_, steps = steps_, number, step] {
      if (const auto found = steps->find(number); found != steps->end() && found->second == step)
        steps->erase(found);
      host->drop(step);
    });
    // A lasting session may have to get other workers first, for which its client decides how long.
    const auto deadline = (order.timeout.count() > 0 ? order.timeout : host_->options().timeout) +
                          kSessionAnswer +
                          (host_->options().lasts() ? kPatience : std::chrono::seconds(0));
    auto answer =
        within(kj::mv(over.promise), timer(), deadline, "Session.run").attach(kj::mv(gone));
    return reply(kj::mv(answer), context, write_all);
  }

  kj::Promise<void> cancel(CancelContext context) override {
    // A step that is over is not in the map any more, and the answer is ok all the same.
    const auto found = steps_->find(context.getParams().getNumber());
    if (found != steps_->end()) host_->cancel(found->second);
    context.getResults().initOutcome().initOk();
    return kj::READY_NOW;
  }

  kj::Promise<void> state(StateContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    LastingHost* const lasting = host_->as_lasting();
    if (lasting == nullptr) return refuse(no_lasting(), context);
    auto asked = answered_elsewhere<LastingHost::State>(loop_, "Session.state");
    auto call = lasting->state(std::move(asked.done));
    return reply(bounded(kj::mv(asked.promise), "Session.state", call), context,
                 [](const LastingHost::State& state, auto outcome) {
                   auto out = outcome.initOk();
                   out.setSteps(state.steps);
                   out.setVersion(state.version);
                 });
  }

  kj::Promise<void> outcome(OutcomeContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    using All = std::vector<Fetched>;
    LastingHost* const lasting = host_->as_lasting();
    if (lasting == nullptr) return refuse(no_lasting(), context);
    auto asked = answered_elsewhere<All>(loop_, "Session.outcome");
    auto call = lasting->outcome(
        context.getParams().getNumber(),
        [host = host_, done = std::move(asked.done)](auto fetches) {
          done(fetches.ok() ? fetched_of(*host, *fetches) : Result<All>(fetches.status()));
        });
    return reply(patient(kj::mv(asked.promise), "Session.outcome", call), context, write_all);
  }

  kj::Promise<void> save(SaveContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    LastingHost* const lasting = host_->as_lasting();
    if (lasting == nullptr) return refuse(no_lasting(), context);
    auto saved = answered_elsewhere<void>(loop_, "Session.save");
    auto call = lasting->save(std::move(saved.done));
    return patient(kj::mv(saved.promise), "Session.save", call)
        .then([context](Status&& status) mutable {
          answer(status, context.getResults().initOutcome());
        });
  }

  kj::Promise<void> close(CloseContext context) override {
    if (const Status mine = mine_still(); !mine.ok()) return refuse(mine, context);
    auto closed = answered_elsewhere<void>(loop_, "Session.close");
    hosts_.close(host_, std::move(closed.done));
    return within(kj::mv(closed.promise), timer(), kSessionAnswer, "Session.close")
        .then([context](Status&& status) mutable {
          answer(status, context.getResults().initOutcome());
        });
  }

 private:
  kj::Timer& timer() { return loop_.context().timer; }
  // failed_precondition if another client has taken over a lasting session.
  Status mine_still() {
    if (!host_->options().lasts() || host_->lease().is_of(client_)) return {};
    return failed_precondition(
        cat("session '", host_->options().name, "': another client has attached to it"));
  }
  Status no_lasting() const {
    return failed_precondition(
        cat("session '", host_->options().name, "': expected a lasting session, it is none"));
  }

  // The answer in bounded time; the call is dropped with the promise.
  template <typename T>
  kj::Promise<T> bounded(kj::Promise<T> promise, const char* what,
                         std::shared_ptr<SessionHost::Call> call) {
    return within(kj::mv(promise), timer(), kSessionAnswer, what)
        .attach(kj::defer([call = std::move(call)] { call->drop(); }));
  }

  // The same for a client that decides how long it waits.
  template <typename T>
  kj::Promise<T> patient(kj::Promise<T> promise, const char* what,
                         std::shared_ptr<SessionHost::Call> call) {
    return within(kj::mv(promise), timer(), kPatience, what)
        .attach(kj::defer([call = std::move(call)] { call->drop(); }));
  }

  Result<Staged> take(wire::Content::Reader in) {
    if (in.isBytes()) {
      const auto bytes = bytes_of(in.getBytes());
      if (bytes.size() > kInlineBytes) {
        return invalid_argument(cat("expected at most ", human_bytes(kInlineBytes),
                                    " in a call, received ", human_bytes(bytes.size())));
      }
      return Staged{std::make_shared<const Blob>(bytes.begin(), bytes.end()), nullptr};
    }
    const auto found = staged_->find(in.getStaged());
    if (found == staged_->end()) {
      return failed_precondition(
          cat("expected bytes that were staged as ", in.getStaged(), ", there are none"));
    }
    // Staged bytes are used once: the call that names them takes them out.
    const Staged staged = std::move(found->second);
    staged_->erase(found);
    return staged;
  }

  Result<std::vector<Fed>> read_feeds(capnp::List<wire::FedValue>::Reader in) {
    std::vector<Fed> feeds;
    for (const auto each : in) {
      Fed& fed = feeds.emplace_back();
      LEAT_ASSIGN_OR_RETURN(fed.type, read_type(each.getType()));
      LEAT_ASSIGN_OR_RETURN(Staged staged, take(each.getContent()));
      if (each.getContent().isStaged()) {
        fed.staged = std::move(staged);
      } else {
        LEAT_ASSIGN_OR_RETURN(fed.tensor, make_tensor(fed.type, *staged.blob));
      }
    }
    return feeds;
  }

  RpcLoop& loop_;
  SessionHosts& hosts_;
  const std::shared_ptr<SessionHost> host_;
  const std::string client_;
  const std::shared_ptr<ByteBudget> uploads_;
  // By the caller's numbers. Uploads and answers that come after this hold them too.
  const std::shared_ptr<std::map<uint64_t, Staged>> staged_ =
      std::make_shared<std::map<uint64_t, Staged>>();
  const std::shared_ptr<std::map<uint64_t, std::shared_ptr<SessionHost::Call>>> steps_ =
      std::make_shared<std::map<uint64_t, std::shared_ptr<SessionHost::Call>>>();
};

}  // namespace

wire::Session::Client make_session_server(RpcLoop& loop, SessionHosts& hosts,
                                          std::shared_ptr<SessionHost> host, std::string client,
                                          std::shared_ptr<ByteBudget> uploads) {
  return kj::heap<SessionServer>(loop, hosts, std::move(host), std::move(client),
                                 std::move(uploads));
}

}  // namespace leat
