// The calls and capabilities that the two ends of a connection hold of each other, counted from the
// messages that pass. Includes Cap'n Proto: for .cc files.
#pragma once

#include <capnp/rpc.capnp.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "devices/base/status.h"
#include "transport/rpc/limits.h"

namespace leat {

// The library's tables grow with what a peer asks for. Its only limit, the flow limit, stops
// reading: then returns wait behind calls, and two ends that call each other stop for ever. The
// ledger keeps the same four tables by the same rules, which rpc.capnp describes, and an end that
// passes a limit is told so and dropped. Neither end is trusted. A message that makes no sense is
// left for the library to refuse.
// Threads: one at a time.
class Ledger {
 public:
  // REQUIRES: `limits` outlives the ledger.
  explicit Ledger(const RpcLimits& limits) : limits_(limits) {}

  // Counts a message of `bytes` bytes that the peer sent, or that we send. An error names the limit
  // that is passed, and is the end of the connection.
  Status received(capnp::rpc::Message::Reader message, size_t bytes);
  Status sent(capnp::rpc::Message::Reader message, size_t bytes);

  // Whether one more call of ours stays within what the peer accepts, with room left for the
  // answers.
  bool may_call(size_t bytes) const {
    return mine_.questions.size() < limits_.own_calls &&
           mine_.question_bytes + bytes <= limits_.call_bytes / 4 * 3;
  }

  // The unfinished calls of the peer and of ours.
  size_t calls_received() const { return theirs_.questions.size(); }
  size_t calls_sent() const { return mine_.questions.size(); }
  // The capabilities that the peer holds of us, and that we hold of it.
  size_t exports() const { return mine_.exports.size(); }
  size_t imports() const { return theirs_.exports.size(); }
  // The bytes of unfinished calls in both directions.
  size_t call_bytes() const { return mine_.question_bytes + theirs_.question_bytes; }

 private:
  using Ids = std::vector<uint32_t>;
  // A call. It lives until the Return has gone one way and the Finish the other.
  struct Question {
    size_t bytes = 0;
    bool returned = false;
    bool finished = false;
    // Capabilities of the caller.
    Ids param_exports;
    // Capabilities of the callee.
    Ids result_exports;
  };
  // The calls that one end has made, and the capabilities that it has given to the other end.
  struct End {
    std::unordered_map<uint32_t, Question> questions;
    size_t question_bytes = 0;
    // The count of references to each.
    std::unordered_map<uint32_t, uint32_t> exports;

    void add_exports(capnp::List<capnp::rpc::CapDescriptor>::Reader table, Ids* ids);
    void add_export(capnp::rpc::CapDescriptor::Reader descriptor, Ids* ids);
    void drop_export(uint32_t id, uint32_t count);
    void drop_exports(const Ids& ids);
    void erase(uint32_t question);
  };

  // Follows one message from `from` to `to`.
  Status passed(End& from, End& to, capnp::rpc::Message::Reader message, size_t bytes);
  Status on_call(End& from, uint32_t question, size_t bytes);
  void on_return(End& from, End& to, capnp::rpc::Return::Reader message, size_t bytes);
  void on_finish(End& from, End& to, capnp::rpc::Finish::Reader message);
  // An error if a limit is passed.
  Status check() const;

  const RpcLimits& limits_;
  End mine_;
  End theirs_;
};

}  // namespace leat
