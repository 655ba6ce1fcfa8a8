#include <algorithm>
#include <deque>

#include "daemon/client/wire_remote_step.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kMaxFetch = uint64_t{1} << 30;

// The fetches of a step. Those that are blobs are downloaded one after the other.
struct ArrivingResult {
  struct Value {
    TensorType type;
    kj::Maybe<wire::Download::Client> from;
    BlobInfo info;
  };
  StepFetches tensors;
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
kj::Promise<Result<StepFetches>> download_all(std::shared_ptr<ArrivingResult> arriving,
                                              size_t index) {
  for (; index < arriving->values.size(); ++index) {
    ArrivingResult::Value& value = arriving->values[index];
    KJ_IF_MAYBE (from, value.from) {
      return download(*from, value.info, kMaxFetch)
          .then([arriving, index](Result<Blob>&& blob) -> kj::Promise<Result<StepFetches>> {
            if (!blob.ok())
              return Result<StepFetches>(blob.status().while_doing("reading a fetch"));
            ArrivingResult::Value& value = arriving->values[index];
            auto tensor = make_tensor(value.type, *blob);
            if (!tensor.ok()) return Result<StepFetches>(tensor.status());
            arriving->tensors[index] = std::move(*tensor);
            // Gives the capability back at once, so that the master can free the value.
            value.from = nullptr;
            return download_all(arriving, index + 1);
          });
    }
  }
  return Result<StepFetches>(std::move(arriving->tensors));
}

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

void cancel_step(RemoteStepState& state);

kj::Promise<Result<StepFetches>> send_step(wire::Session::Client session,
                                           std::shared_ptr<RemoteStepState> state) {
  // cancel() may come while values are uploaded. The master does not know the step yet, so it ends
  // here.
  if (state->cancelled && !state->sent)
    return Result<StepFetches>(cancelled("a step was cancelled before it began"));
  auto request = session.runRequest();
  write_step(*state, request.initStep());
  const bool again = state->sent.exchange(true);
  auto sending = request.send();
  // A cancel() that came when there was no connection.
  if (again && state->cancelled) cancel_step(*state);
  return sending.then([state](auto&& response) -> kj::Promise<Result<StepFetches>> {
    const auto outcome = response.getOutcome();
    state->told = outcome.isError();
    if (outcome.isError()) return Result<StepFetches>(read_status(outcome.getError()));
    return download_fetches(outcome.getOk());
  });
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
        within(request.send().ignoreResult(), context.timer, kSessionAnswer, "Session.cancel")
            .then([](Status&&) {}));
  }
}

}  // namespace

kj::Maybe<wire::Session::Client> session_of(RpcLoop& loop, uint64_t link) {
  const auto found = loop.context().owned.find(link);
  if (found == loop.context().owned.end()) return nullptr;
  return static_cast<SessionLink&>(*found->second).session;
}

Status no_session_link() { return unavailable("the connection to the master was lost"); }

kj::Promise<Status> stage(wire::Session::Client session, std::vector<UploadedValue> all) {
  kj::Vector<kj::Promise<Status>> uploads;
  for (const UploadedValue& each : all) {
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

kj::Promise<Result<StepFetches>> download_fetches(wire::StepResult::Reader in) {
  auto arriving = read_result(in);
  if (!arriving.ok()) return Result<StepFetches>(arriving.status());
  return download_all(*arriving, 0);
}

kj::Promise<Result<StepFetches>> run_step(std::shared_ptr<RemoteStepState> state) {
  KJ_IF_MAYBE (session, session_of(*state->loop, state->link)) {
    if (state->staging.empty()) return send_step(*session, state);
    return stage(*session, state->staging)
        .then([session = *session,
               state](Status&& status) mutable -> kj::Promise<Result<StepFetches>> {
          if (!status.ok()) return Result<StepFetches>(status);
          return send_step(kj::mv(session), state);
        });
  }
  return Result<StepFetches>(no_session_link());
}

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

}  // namespace leat
