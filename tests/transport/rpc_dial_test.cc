#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/timer.h>

#include <vector>

#include "tests/catch.h"
#include "transport/rpc/dial.h"

namespace leat {
namespace {

using Stream = kj::Own<kj::AsyncIoStream>;

// An address whose connects end when the test says so.
struct SilentAddress final : kj::NetworkAddress {
  kj::Promise<Stream> connect() override {
    auto answer = kj::newPromiseAndFulfiller<Stream>();
    tries.push_back(kj::mv(answer.fulfiller));
    return kj::mv(answer.promise);
  }
  kj::Own<kj::ConnectionReceiver> listen() override { KJ_FAIL_REQUIRE("it is dialled"); }
  kj::Own<kj::NetworkAddress> clone() override { KJ_FAIL_REQUIRE("it is dialled"); }
  kj::String toString() override { return kj::str("silent"); }

  std::vector<kj::Own<kj::PromiseFulfiller<Stream>>> tries;
};

struct Scene {
  void pass(kj::Duration time) {
    timer.advanceTo(timer.now() + time);
    loop.run();
  }

  kj::EventLoop loop;
  kj::WaitScope waits{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  SilentAddress address;
};

}  // namespace

TEST_CASE("an address that does not answer is dialled again, and the first answer is taken") {
  Scene scene;
  auto dialled = dial(scene.address, scene.timer);
  scene.pass(kDialAgain - kj::MILLISECONDS);
  CHECK(scene.address.tries.size() == 1);
  scene.pass(kj::MILLISECONDS);
  CHECK(scene.address.tries.size() == 2);
  scene.pass(kDialAgain);
  REQUIRE(scene.address.tries.size() == 3);

  auto pipe = kj::newTwoWayPipe();
  kj::AsyncIoStream* const stream = pipe.ends[0].get();
  scene.address.tries[1]->fulfill(kj::mv(pipe.ends[0]));
  CHECK(dialled.wait(scene.waits).get() == stream);
  for (auto& each : scene.address.tries) CHECK_FALSE(each->isWaiting());  // none waits
  scene.pass(10 * kDialAgain);
  CHECK(scene.address.tries.size() == 3);
}

TEST_CASE("an address that refuses is not dialled again") {
  Scene scene;
  auto dialled = dial(scene.address, scene.timer);
  scene.address.tries[0]->reject(KJ_EXCEPTION(DISCONNECTED, "refused"));
  CHECK_THROWS_AS(dialled.wait(scene.waits), kj::Exception);
  scene.pass(10 * kDialAgain);
  CHECK(scene.address.tries.size() == 1);
}

TEST_CASE("an address is not dialled any more once no caller waits for it") {
  Scene scene;
  {
    const auto dialled = dial(scene.address, scene.timer);
    scene.pass(kDialAgain);
    CHECK(scene.address.tries.size() == 2);
  }
  for (auto& each : scene.address.tries) CHECK_FALSE(each->isWaiting());
  scene.pass(10 * kDialAgain);
  CHECK(scene.address.tries.size() == 2);
}

}  // namespace leat
