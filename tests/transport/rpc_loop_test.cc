#include <kj/debug.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/no_descriptors.h"
#include "transport/rpc/call.h"
#include "transport/rpc/loop.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// Starts a loop that parks at once, or one that looks again first.
std::unique_ptr<RpcLoop> start() {
  auto loop = RpcLoop::start({}, GENERATE(0us, RpcLoop::kSpin));
  REQUIRE(loop.ok());
  return std::move(*loop);
}

// Posts itself again until it has run often enough.
struct Again {
  RpcLoop& loop;
  std::atomic<bool>& enough;
  void operator()() const {
    if (!enough) (void)loop.post(*this);
  }
};

// Records the thread on which it is destroyed.
struct Witness {
  explicit Witness(std::thread::id& thread) : thread(thread) {}
  ~Witness() { thread = std::this_thread::get_id(); }
  std::thread::id& thread;
};

}  // namespace

TEST_CASE("posts of one thread run in their order on the loop's thread", "[cluster]") {
  const auto loop = start();
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(loop->post([&, i] { order.push_back(loop->on_loop_thread() ? i : -1); }));
  }
  REQUIRE(loop->run([] {}));
  REQUIRE(order.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(order[i] == i);
  CHECK_FALSE(loop->on_loop_thread());
}

TEST_CASE("a loop without a descriptor left does not start") {
  const Status status = [] {
    const NoDescriptors none;
    return RpcLoop::start().status();
  }();
  CHECK(status.to_string() == "resource_exhausted: rpc thread: no descriptor for its eventfd");
}

TEST_CASE("every post that was taken runs, though the loop stops meanwhile", "[cluster]") {
  const auto loop = start();
  std::atomic<int> taken{0}, ran{0};
  std::vector<std::thread> posters;
  for (int t = 0; t < 4; ++t) {
    posters.emplace_back([&] {
      while (loop->post([&] { ++ran; })) ++taken;
    });
  }
  while (taken < 1000) std::this_thread::yield();
  loop->stop();
  for (auto& poster : posters) poster.join();
  CHECK(ran == taken);
  CHECK_FALSE(loop->post([] {}));
  CHECK_FALSE(loop->run([] {}));
}

TEST_CASE("posts that post without an end let timers have their turn", "[cluster]") {
  std::atomic<bool> enough{false};  // the loop outlives its posts, and this the loop
  const auto loop = start();
  for (int i = 0; i < 3; ++i) REQUIRE(loop->post(Again{*loop, enough}));
  const auto later = [&] { return loop->context().timer.afterDelay(2 * kj::MILLISECONDS); };
  CHECK(call(*loop, later, 30s, "a timer").ok());
  enough = true;
}

TEST_CASE("a posted function that throws ends alone", "[cluster]") {
  const auto loop = start();
  REQUIRE(loop->post([] { throw std::runtime_error("wrong"); }));
  REQUIRE(loop->post([] { KJ_FAIL_REQUIRE("wrong"); }));
  CHECK(loop->run([] { throw std::runtime_error("wrong"); }));
  CHECK(loop->run([] {}));
}

TEST_CASE("a call brings the value of its promise", "[cluster]") {
  const auto loop = start();
  const auto sum = call(
      *loop, [] { return kj::evalLater([] { return 40 + 2; }); }, 30s, "sum");
  REQUIRE(sum.ok());
  CHECK(*sum == 42);
  CHECK(call(
            *loop, []() -> kj::Promise<void> { return kj::READY_NOW; }, 30s, "nothing")
            .ok());
  const auto own = call(
      *loop, []() -> kj::Promise<Result<int>> { return Result<int>(cancelled("no")); }, 30s, "own");
  CHECK(own.status().code() == Code::cancelled);
}

TEST_CASE("a call without an answer ends at its deadline and says whose it was", "[cluster]") {
  const auto loop = start();
  std::thread::id destroyed_on, loop_thread;
  REQUIRE(loop->run([&] { loop_thread = std::this_thread::get_id(); }));
  const Status late = call(
      *loop,
      [&]() -> kj::Promise<void> {
        kj::Promise<void> never = kj::NEVER_DONE;
        return never.attach(kj::heap<Witness>(destroyed_on));
      },
      50ms, "Probe.hold to 127.0.0.1:1");
  CHECK(late.code() == Code::deadline_exceeded);
  CHECK(late.message() == "Probe.hold to 127.0.0.1:1: no answer within 50 ms");
  CHECK(destroyed_on == loop_thread);  // before the return, because it may use local variables
}

TEST_CASE("a caller waits no longer than the deadline though the loop is busy", "[cluster]") {
  std::atomic<bool> release{false};  // outlives the loop, which reads it
  const auto loop = start();
  REQUIRE(loop->post([&] {
    while (!release) std::this_thread::yield();
  }));
  bool ran = false;
  const auto function = [&ran]() -> kj::Promise<void> {
    ran = true;
    return kj::READY_NOW;
  };
  const auto status = call(*loop, function, 20ms, "it");
  CHECK(status.code() == Code::deadline_exceeded);
  release = true;
  REQUIRE(loop->run([] {}));
  CHECK_FALSE(ran);  // its captures may be gone
}

TEST_CASE("exceptions of KJ become the code that tells what to do", "[cluster]") {
  const auto loop = start();
  const auto code_of = [&](kj::Exception::Type type) {
    return call(
               *loop,
               [type]() -> kj::Promise<void> {
                 return kj::Exception(type, __FILE__, __LINE__, kj::str("why"));
               },
               30s, "it")
        .to_string();
  };
  CHECK(code_of(kj::Exception::Type::DISCONNECTED) == "unavailable: it: why");
  CHECK(code_of(kj::Exception::Type::UNIMPLEMENTED) == "unimplemented: it: why");
  CHECK(code_of(kj::Exception::Type::OVERLOADED) == "resource_exhausted: it: why");
  CHECK(code_of(kj::Exception::Type::FAILED) == "internal: it: why");
  const Status thrown = call(
      *loop, []() -> kj::Promise<void> { throw std::runtime_error("why"); }, 30s, "it");
  CHECK(thrown.code() == Code::internal);
}

TEST_CASE("calls in flight are cancelled when the loop stops", "[cluster]") {
  const auto loop = start();
  std::atomic<int> done{0};
  Status outcome;
  start_call(
      *loop, []() -> kj::Promise<void> { return kj::NEVER_DONE; }, 60s, "forever",
      [&](Status status) {
        outcome = status;
        ++done;
      });
  loop->stop();
  CHECK(done == 1);
  CHECK(outcome.to_string() == "cancelled: forever: the rpc thread has stopped");
  start_call(
      *loop, []() -> kj::Promise<void> { return kj::READY_NOW; }, 60s, "later",
      [&](const Status& status) { done += status.code() == Code::cancelled; });
  CHECK(done == 2);
}

TEST_CASE("a call from the loop's own thread is refused, not deadlocked", "[cluster]") {
  const auto loop = start();
  Status status;
  REQUIRE(loop->run([&] {
    status = call(
        *loop, []() -> kj::Promise<void> { return kj::READY_NOW; }, 30s, "it");
  }));
  CHECK(status.code() == Code::internal);
}

TEST_CASE("another thread's answer comes back, and a call it drops is cancelled", "[cluster]") {
  const auto loop = start();
  const auto answered = call(
      *loop,
      [&] {
        auto waiting = answered_elsewhere<int>(*loop, "work");
        std::thread([done = waiting.done] { done(7); }).join();
        return kj::mv(waiting.promise);
      },
      30s, "it");
  REQUIRE(answered.ok());
  CHECK(*answered == 7);
  const auto dropped = call(
      *loop, [&] { return answered_elsewhere<int>(*loop, "work").promise; }, 30s, "it");
  CHECK(dropped.status().to_string() == "cancelled: work: given up without an answer");
}

TEST_CASE("objects on the loop are destroyed there, the newest first", "[cluster]") {
  struct Owned final : LoopOwned {
    Owned(std::vector<int>& gone, int number, RpcLoop& loop)
        : gone(gone), number(number), loop(loop) {}
    ~Owned() noexcept(false) { gone.push_back(loop.on_loop_thread() ? number : -1); }
    std::vector<int>& gone;
    int number;
    RpcLoop& loop;
  };
  const auto loop = start();
  std::vector<int> gone;
  REQUIRE(loop->run([&] {
    for (int i = 1; i <= 3; ++i) loop->context().own(kj::heap<Owned>(gone, i, *loop));
  }));
  loop->stop();
  CHECK(gone == std::vector<int>{3, 2, 1});
}

namespace {
std::atomic<int> signals_seen{0};
}

TEST_CASE("a handler of SIGUSR1 is left to its owner", "[cluster]") {
  struct sigaction mine {
  }, before{};
  mine.sa_handler = [](int) { ++signals_seen; };
  REQUIRE(::sigaction(SIGUSR1, &mine, &before) == 0);
  {
    const auto loop = start();
    signals_seen = 0;
    REQUIRE(::raise(SIGUSR1) == 0);
    CHECK(signals_seen == 1);
    sigset_t on_loop;
    REQUIRE(loop->run([&] { ::pthread_sigmask(SIG_BLOCK, nullptr, &on_loop); }));
    CHECK(::sigismember(&on_loop, SIGUSR1) == 1);
    CHECK(::sigismember(&on_loop, SIGTERM) == 1);
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace leat
