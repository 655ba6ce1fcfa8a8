#include "daemon/lasting/wire_log.h"

#include <cstring>
#include <optional>

#include "daemon/wire/session_messages.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"

namespace leat {
namespace {

constexpr size_t kMostOutcome = size_t{256} << 20;

// Reads a message from a copy.
class Unpacked {
 public:
  explicit Unpacked(std::string_view bytes)
      : words_(kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word))) {
    std::memcpy(words_.begin(), bytes.data(), words_.asBytes().size());
    reader_.emplace(words_, capnp::ReaderOptions{.traversalLimitInWords = words_.size() + 1024});
  }
  template <typename T>
  typename T::Reader root() {
    return reader_->getRoot<T>();
  }

 private:
  kj::Array<capnp::word> words_;
  std::optional<capnp::FlatArrayMessageReader> reader_;
};

Result<Tensor> unpack_value(wire::FetchedValue::Reader in) {
  LEAT_ASSIGN_OR_RETURN(const TensorType type, read_type(in.getType()));
  return make_tensor(type, bytes_of(in.getBytes()));
}

}  // namespace

Packed pack(const Signature& signature) {
  capnp::MallocMessageBuilder message;
  write_signature(signature, message.initRoot<wire::Signature>());
  return Packed(message);
}

Packed pack(const LoggedStep& step) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<wire::StepRequest>();
  write_order({step.number, step.timeout, step.what}, out);
  out.setAnswered(step.answered);
  auto feeds = out.initFeeds(static_cast<uint32_t>(step.feeds.size()));
  for (uint32_t i = 0; i < feeds.size(); ++i) {
    write_type(step.feeds[i], feeds[i].initType());
    feeds[i].initContent().setBytes(bytes_of(step.feeds[i]));
  }
  return Packed(message);
}

Packed pack(const StepOutcome& outcome) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<wire::LoggedOutcome>();
  size_t bytes = 0;
  if (outcome.ok()) {
    for (const Tensor& value : *outcome) bytes += value.bytes();
  }
  if (bytes > kMostOutcome) {
    const auto error = resource_exhausted(cat("the step was applied; its fetches, ",
                                              human_bytes(bytes), ", were too large to be kept"));
    write_status(error, out.initError());
    return Packed(message);
  }
  if (!outcome.ok()) {
    write_status(outcome.status(), out.initError());
    return Packed(message);
  }
  auto fetches = out.initFetches(static_cast<uint32_t>(outcome->size()));
  for (uint32_t i = 0; i < fetches.size(); ++i) {
    write_type((*outcome)[i], fetches[i].initType());
    fetches[i].setBytes(bytes_of((*outcome)[i]));
  }
  return Packed(message);
}

Signature unpack_signature(std::string_view bytes) {
  Unpacked message(bytes);
  return read_signature(message.root<wire::Signature>());
}

Result<LoggedStep> unpack_step(std::string_view bytes) {
  Unpacked message(bytes);
  const auto in = message.root<wire::StepRequest>();
  StepOrder order = read_order(in);
  LoggedStep step{order.number, std::move(order.what), order.timeout};
  step.answered = in.getAnswered();
  for (const auto each : in.getFeeds()) {
    LEAT_ASSIGN_OR_RETURN(const TensorType type, read_type(each.getType()));
    LEAT_ASSIGN_OR_RETURN(Tensor feed, make_tensor(type, bytes_of(each.getContent().getBytes())));
    step.feeds.push_back(std::move(feed));
  }
  return step;
}

Result<StepOutcome> unpack_outcome(std::string_view bytes) {
  Unpacked message(bytes);
  const auto in = message.root<wire::LoggedOutcome>();
  if (in.isError()) return StepOutcome(read_status(in.getError()));
  std::vector<Tensor> fetches;
  for (const auto each : in.getFetches()) {
    LEAT_ASSIGN_OR_RETURN(Tensor value, unpack_value(each));
    fetches.push_back(std::move(value));
  }
  return StepOutcome(std::move(fetches));
}

}  // namespace leat
