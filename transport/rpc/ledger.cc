#include "transport/rpc/ledger.h"

#include "devices/base/text.h"

namespace leat {

using capnp::rpc::Call;
using capnp::rpc::CapDescriptor;
using capnp::rpc::Message;

// Counts one more reference to a capability that this end gives away. `ids` gets its number, so
// that the end of the call can take the references back.
void Ledger::End::add_export(CapDescriptor::Reader descriptor, Ids* ids) {
  uint32_t id;
  switch (descriptor.which()) {
    case CapDescriptor::SENDER_HOSTED:
      id = descriptor.getSenderHosted();
      break;
    case CapDescriptor::SENDER_PROMISE:
      id = descriptor.getSenderPromise();
      break;
    // A two-party network has no third party. The number counts anyway, because a peer may send
    // one.
    case CapDescriptor::THIRD_PARTY_HOSTED:
      id = descriptor.getThirdPartyHosted().getVineId();
      break;
    default:
      return;  // a capability of the receiver, or none
  }
  ++exports[id];
  if (ids != nullptr) ids->push_back(id);
}

void Ledger::End::add_exports(capnp::List<CapDescriptor>::Reader table, Ids* ids) {
  for (const auto descriptor : table) add_export(descriptor, ids);
}

// Takes references back. A count that is too large drops them all: the library judges such a
// message.
void Ledger::End::drop_export(uint32_t id, uint32_t count) {
  const auto found = exports.find(id);
  if (found == exports.end()) return;
  if (found->second <= count) {
    exports.erase(found);
  } else {
    found->second -= count;
  }
}

void Ledger::End::drop_exports(const Ids& ids) {
  for (const uint32_t id : ids) drop_export(id, 1);
}

// Forgets a call with its bytes. REQUIRES: the call is in the table.
void Ledger::End::erase(uint32_t question) {
  const auto found = questions.find(question);
  question_bytes -= found->second.bytes;
  questions.erase(found);
}

Status Ledger::received(Message::Reader message, size_t bytes) {
  // Results that go elsewhere, or stay at the callee, would be calls that the ledger cannot follow.
  if (message.isCall() && !message.getCall().getSendResultsTo().isCaller()) {
    return invalid_argument("call whose results go elsewhere: expected results to the caller");
  }
  // The tables are changed first and judged then, so a limit is passed by one message at most.
  LEAT_RETURN_IF_ERROR(passed(theirs_, mine_, message, bytes));
  return check();
}

Status Ledger::sent(Message::Reader message, size_t bytes) {
  LEAT_RETURN_IF_ERROR(passed(mine_, theirs_, message, bytes));
  return check();
}

Status Ledger::passed(End& from, End& to, Message::Reader message, size_t bytes) {
  // Each message changes what its sender holds of the receiver, or gives back what it held.
  switch (message.which()) {
    case Message::BOOTSTRAP:
      return on_call(from, message.getBootstrap().getQuestionId(), bytes);
    case Message::CALL: {
      const auto call = message.getCall();
      LEAT_RETURN_IF_ERROR(on_call(from, call.getQuestionId(), bytes));
      from.add_exports(call.getParams().getCapTable(),
                       &from.questions[call.getQuestionId()].param_exports);
      return {};
    }
    case Message::RETURN:
      on_return(from, to, message.getReturn(), bytes);
      return {};
    case Message::FINISH:
      on_finish(from, to, message.getFinish());
      return {};
    case Message::RESOLVE:
      if (message.getResolve().isCap()) from.add_export(message.getResolve().getCap(), nullptr);
      return {};
    case Message::RELEASE:
      to.drop_export(message.getRelease().getId(), message.getRelease().getReferenceCount());
      return {};
    default:
      return {};
  }
}

Status Ledger::on_call(End& from, uint32_t question, size_t bytes) {
  // The caller chooses the number. A number in use would let two calls share one entry.
  const auto [entry, is_new] = from.questions.try_emplace(question);
  if (!is_new) return invalid_argument(cat("call ", question, ": its number is in use"));
  entry->second.bytes = bytes;
  from.question_bytes += bytes;
  return {};
}

void Ledger::on_return(End& from, End& to, capnp::rpc::Return::Reader message, size_t bytes) {
  // The results count against the caller until it sends a Finish, because the callee keeps them
  // until then.
  const auto found = to.questions.find(message.getAnswerId());
  if (found == to.questions.end() || found->second.returned) return;
  Question& question = found->second;
  question.returned = true;
  question.bytes += bytes;
  to.question_bytes += bytes;
  if (message.isResults()) {
    from.add_exports(message.getResults().getCapTable(), &question.result_exports);
  }
  if (message.getReleaseParamCaps()) to.drop_exports(question.param_exports);
  // A caller that has finished already does not want the capabilities of the results.
  if (question.finished) {
    from.drop_exports(question.result_exports);
    to.erase(message.getAnswerId());
  }
}

void Ledger::on_finish(End& from, End& to, capnp::rpc::Finish::Reader message) {
  const auto found = from.questions.find(message.getQuestionId());
  if (found == from.questions.end()) return;
  Question& question = found->second;
  question.finished = true;
  // A call that is finished before it returned is cancelled. Its entry waits for the Return.
  if (!question.returned) return;
  if (message.getReleaseResultCaps()) to.drop_exports(question.result_exports);
  from.erase(message.getQuestionId());
}

Status Ledger::check() const {
  // The number of our own calls is not judged here: may_call() stops them before they are sent.
  const auto past = [](std::string_view what, size_t limit) {
    return resource_exhausted(cat("more than ", limit, " ", what));
  };
  if (theirs_.questions.size() > limits_.calls) return past("calls not finished", limits_.calls);
  if (theirs_.question_bytes > limits_.call_bytes) {
    return past("bytes of calls not finished", limits_.call_bytes);
  }
  if (mine_.question_bytes > limits_.call_bytes) {
    return past("bytes of answers not let go of", limits_.call_bytes);
  }
  if (mine_.exports.size() > limits_.exports) return past("capabilities taken", limits_.exports);
  if (theirs_.exports.size() > limits_.imports) return past("capabilities given", limits_.imports);
  return {};
}

}  // namespace leat
