// The messages in the values of a session's record (session_log.h).
//
// The bytes that are read were written by this program: a checksum or a key vouches for them.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <string_view>

#include "daemon/lasting/session_log.h"
#include "devices/base/status.h"

namespace leat {

// A message as bytes, aligned as Cap'n Proto reads them.
class Packed {
 public:
  explicit Packed(capnp::MessageBuilder& message) : words_(capnp::messageToFlatArray(message)) {}
  std::string_view text() const {
    const auto bytes = words_.asBytes();
    return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
  }

 private:
  kj::Array<capnp::word> words_;
};

Packed pack(const Signature& signature);
// With the number, the timeout, the feeds and what runs.
Packed pack(const LoggedStep& step);
// Fetches of more than 256 MiB become the error that they were too large to be kept.
Packed pack(const StepOutcome& outcome);

Signature unpack_signature(std::string_view bytes);
// Errors are those of a tensor whose type and bytes do not fit.
Result<LoggedStep> unpack_step(std::string_view bytes);
// The outer status is that of reading it.
Result<StepOutcome> unpack_outcome(std::string_view bytes);

}  // namespace leat
