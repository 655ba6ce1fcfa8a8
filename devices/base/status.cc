#include "devices/base/status.h"

#include "devices/base/utf8.h"

namespace leat {

// The names are in messages and in LEAT_FAILPOINTS, so they never change.
std::string_view code_name(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::failed_precondition:
      return "failed_precondition";
    case Code::unimplemented:
      return "unimplemented";
    case Code::resource_exhausted:
      return "resource_exhausted";
    case Code::unavailable:
      return "unavailable";
    case Code::deadline_exceeded:
      return "deadline_exceeded";
    case Code::cancelled:
      return "cancelled";
    case Code::internal:
      return "internal";
  }
  return "unknown";
}

// Messages quote files and peers, so that their bytes are made UTF-8 here, once for all.
Status::Status(Code code, std::string message) {
  if (code == Code::ok) return;
  rep_ = std::make_shared<const Rep>(Rep{code, valid_utf8(std::move(message))});
}

// Ok has no message of its own to refer to.
const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(code_name(code())) + ": " + message();
}

// A new message, since copies of this error share the old one.
Status Status::while_doing(std::string_view what) const {
  if (ok()) return *this;
  return Status(code(), message() + "; while " + std::string(what));
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.to_string();
}

Status invalid_argument(std::string m) { return Status(Code::invalid_argument, std::move(m)); }
Status failed_precondition(std::string m) {
  return Status(Code::failed_precondition, std::move(m));
}
Status unimplemented(std::string m) { return Status(Code::unimplemented, std::move(m)); }
Status resource_exhausted(std::string m) { return Status(Code::resource_exhausted, std::move(m)); }
Status unavailable(std::string m) { return Status(Code::unavailable, std::move(m)); }
Status deadline_exceeded(std::string m) { return Status(Code::deadline_exceeded, std::move(m)); }
Status cancelled(std::string m) { return Status(Code::cancelled, std::move(m)); }
Status internal_error(std::string m) { return Status(Code::internal, std::move(m)); }

}  // namespace leat
