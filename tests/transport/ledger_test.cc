// Tests the ledger of calls and capabilities with messages made by hand: each limit, by its name,
// and calls that our own ends never make.
#include "transport/rpc/ledger.h"

#include <capnp/message.h>

#include <functional>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

using capnp::rpc::Message;

// A message for the ledger. `fill` writes its content.
class Made {
 public:
  explicit Made(const std::function<void(Message::Builder)>& fill) {
    fill(builder_.initRoot<Message>());
  }
  Message::Reader reader() { return builder_.getRoot<Message>().asReader(); }

 private:
  capnp::MallocMessageBuilder builder_;
};

Made call(uint32_t question, uint32_t capabilities = 0) {
  return Made([&](Message::Builder message) {
    auto call = message.initCall();
    call.setQuestionId(question);
    auto table = call.initParams().initCapTable(capabilities);
    for (uint32_t i = 0; i < capabilities; ++i) table[i].setSenderHosted(i);
  });
}

Made answer(uint32_t question, uint32_t capabilities = 0) {
  return Made([&](Message::Builder message) {
    auto made = message.initReturn();
    made.setAnswerId(question);
    auto table = made.initResults().initCapTable(capabilities);
    for (uint32_t i = 0; i < capabilities; ++i) table[i].setSenderHosted(i);
  });
}

Made finish(uint32_t question) {
  return Made([&](Message::Builder message) {
    message.initFinish().setQuestionId(question);
    message.getFinish().setReleaseResultCaps(true);
  });
}

void check_past(const Status& status, const std::string& what) {
  CHECK(status.code() == Code::resource_exhausted);
  CHECK(status.message() == what);
}

TEST_CASE("a call whose results would go elsewhere is refused") {
  const RpcLimits limits;
  for (const bool yourself : {true, false}) {
    Ledger ledger(limits);
    Made elsewhere([&](Message::Builder message) {
      auto to = message.initCall().getSendResultsTo();
      if (yourself) to.setYourself();
      if (!yourself) to.initThirdParty();
    });
    const Status status = ledger.received(elsewhere.reader(), 8);
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message() == "call whose results go elsewhere: expected results to the caller");
    CHECK(ledger.calls_received() == 0);
  }
}

TEST_CASE("a number of a call that is in use is refused until the call is finished") {
  const RpcLimits limits;
  Ledger ledger(limits);
  must(ledger.received(call(7).reader(), 8));
  CHECK(ledger.received(call(7).reader(), 8).message() == "call 7: its number is in use");
  must(ledger.sent(answer(7).reader(), 8));
  must(ledger.received(finish(7).reader(), 8));
  must(ledger.received(call(7).reader(), 8));
}

TEST_CASE("each limit of a connection holds at its edge, and is named") {
  RpcLimits limits;
  limits.calls = 3;
  limits.call_bytes = 1000;
  limits.exports = 4;
  limits.imports = 5;
  Ledger ledger(limits);
  SECTION("calls") {
    for (uint32_t i = 0; i < 3; ++i) must(ledger.received(call(i).reader(), 8));
    check_past(ledger.received(call(3).reader(), 8), "more than 3 calls not finished");
  }
  SECTION("bytes of the peer's calls, with those of their answers") {
    must(ledger.received(call(0).reader(), 400));
    must(ledger.sent(answer(0).reader(), 600));
    check_past(ledger.received(call(1).reader(), 1), "more than 1000 bytes of calls not finished");
  }
  SECTION("bytes of answers that we have not let go of") {
    must(ledger.sent(call(0).reader(), 400));
    must(ledger.received(answer(0).reader(), 600));
    check_past(ledger.sent(call(1).reader(), 1), "more than 1000 bytes of answers not let go of");
  }
  SECTION("capabilities that the peer holds of us") {
    must(ledger.received(call(0).reader(), 8));
    must(ledger.received(call(1).reader(), 8));
    must(ledger.sent(answer(0, 4).reader(), 8));
    check_past(ledger.sent(answer(1, 5).reader(), 8), "more than 4 capabilities taken");
  }
  SECTION("capabilities that we hold of the peer") {
    must(ledger.received(call(0, 5).reader(), 8));
    check_past(ledger.received(call(1, 6).reader(), 8), "more than 5 capabilities given");
  }
}

}  // namespace
}  // namespace leat
