#include "transport/rpc/call.h"

#include <algorithm>

namespace leat {
namespace {

// The most bytes of an error's text, in both directions: a peer may send any text.
constexpr size_t kMaxMessage = 4096;

// KJ wants a zero behind the text, which a view does not have.
kj::String kj_text(std::string_view text) { return kj::heapString(text.data(), text.size()); }

}  // namespace

Status no_answer(std::string_view what, std::chrono::nanoseconds deadline) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(deadline).count();
  return deadline_exceeded(cat(what, ": no answer within ", ms, " ms"));
}

Status to_status(const kj::Exception& exception, std::string_view what) {
  const std::string message = cat(what, ": ", exception.getDescription().cStr());
  // KJ has four types of exceptions. The caller can do something about three of them.
  switch (exception.getType()) {
    case kj::Exception::Type::DISCONNECTED:
      return unavailable(message);
    case kj::Exception::Type::UNIMPLEMENTED:
      return unimplemented(message);
    case kj::Exception::Type::OVERLOADED:
      return resource_exhausted(message);
    case kj::Exception::Type::FAILED:
      break;
  }
  return internal_error(message);
}

kj::Exception to_exception(const Status& status) {
  using Type = kj::Exception::Type;
  // The reverse of to_status(). Codes that KJ has no type for become FAILED, and the text stays.
  Type type = Type::FAILED;
  if (status.code() == Code::unavailable) type = Type::DISCONNECTED;
  if (status.code() == Code::unimplemented) type = Type::UNIMPLEMENTED;
  if (status.code() == Code::resource_exhausted) type = Type::OVERLOADED;
  return kj::Exception(type, __FILE__, __LINE__, kj_text(status.message()));
}

void write_status(const Status& status, wire::Status::Builder out) {
  // The numbers of the codes are the same in common.capnp.
  out.setCode(static_cast<wire::Status::Code>(status.code()));
  out.setMessage(kj_text(std::string_view(status.message()).substr(0, kMaxMessage)));
}

Status read_status(wire::Status::Reader in) {
  const auto text = in.getMessage();
  std::string message(text.cStr(), std::min<size_t>(text.size(), kMaxMessage));
  const auto code = static_cast<uint16_t>(in.getCode());
  // The peer may be a later build, or hostile. An error must never turn into success here.
  if (code == 0 || code > static_cast<uint16_t>(Code::internal)) {
    return internal_error(cat("error of unknown code ", code, ": ", message));
  }
  return Status(static_cast<Code>(code), std::move(message));
}

}  // namespace leat
