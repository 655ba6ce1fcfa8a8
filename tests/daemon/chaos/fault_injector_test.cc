#include "daemon/chaos/fault_injector.h"

#include <sys/wait.h>
#include <unistd.h>

#include <limits>

#include "daemon/chaos/commit_chaos.h"
#include "devices/base/failpoint.h"
#include "tests/catch.h"
#include "tests/eventually.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// A run that steps as far as its gate allows.
class SteppingRun final : public GatedRun {
 public:
  explicit SteppingRun(uint64_t number = 1) : number_(number) {}
  uint64_t number() const override { return number_; }
  void set_gate(uint64_t step) override {
    const std::lock_guard lock(mutex_);
    gate_ = step;
    changed_.notify_all();
  }
  Status await_step(uint64_t step, std::chrono::steady_clock::time_point deadline) override {
    std::unique_lock lock(mutex_);
    if (changed_.wait_until(lock, deadline, [&] { return std::min(limit_, gate_) >= step; })) {
      return {};
    }
    return deadline_exceeded("not there yet");
  }
  void extend(uint64_t limit) {
    const std::lock_guard lock(mutex_);
    limit_ = limit;
    changed_.notify_all();
  }
  uint64_t done() const {
    const std::lock_guard lock(mutex_);
    return std::min(limit_, gate_);
  }

 private:
  const uint64_t number_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t limit_ = 0, gate_ = std::numeric_limits<uint64_t>::max();
};

// Records the questions and deeds in order: "ask 0 at 7", "do kill=runner:0@step=7".
class Book {
 public:
  explicit Book(SteppingRun& run) : run_(run) {}
  FaultInjector::Announce announce() {
    return [this](const ArmedFault& fault) {
      add("ask " + std::to_string(fault.index) + " at " + std::to_string(run_.done()));
      const std::lock_guard lock(mutex_);
      if (first_answers.empty()) return answer;
      const Status status = first_answers.front();
      first_answers.erase(first_answers.begin());
      return status;
    };
  }
  FaultInjector::Commit commit() {
    return [this](const ChaosFault& fault) { add("do " + to_string(fault)); };
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  Status answer;
  std::vector<Status> first_answers;  // the first answers; after them comes `answer`

 private:
  void add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
  }
  SteppingRun& run_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

ArmedFault armed(uint32_t index, const char* spec) { return {index, *parse_chaos_fault(spec)}; }

TEST_CASE("a fault comes when its step is done, announced before the next may begin") {
  const auto run = std::make_shared<SteppingRun>();
  Book book(*run);
  FaultInjector injector(book.announce(), book.commit(), Logger());
  injector.arm({armed(3, "kill=runner:0@step=20"), armed(1, "stop=runner:0@step=7,for=1ms")}, 0ms);
  injector.watch(run);
  CHECK(run->done() == 0);
  run->extend(100);
  REQUIRE(eventually([&] { return book.lines().size() == 4; }, 10s, 1ms));
  CHECK(book.lines() == std::vector<std::string>{"ask 1 at 7", "do stop=runner:0@step=7,for=1ms",
                                                 "ask 3 at 20", "do kill=runner:0@step=20"});
  CHECK(eventually([&] { return run->done() == 100; }, 10s, 1ms));
}

TEST_CASE("a fault waits for all parts of a run, and holds up all of them") {
  const auto first = std::make_shared<SteppingRun>(), second = std::make_shared<SteppingRun>();
  Book book(*second);
  FaultInjector injector(book.announce(), book.commit(), Logger());
  injector.arm({armed(0, "stop=runner:0@step=7,for=1ms")}, 0ms);
  const auto before = std::make_shared<SteppingRun>(0);
  injector.watch(before);  // another run, which counts no more
  injector.watch(first);
  injector.watch(second);
  first->extend(100);
  second->extend(6);
  CHECK_FALSE(eventually([&] { return !book.lines().empty(); }, 100ms, 1ms));
  CHECK(first->done() == 7);
  second->extend(100);
  REQUIRE(eventually([&] { return book.lines().size() == 2; }, 10s, 1ms));
  CHECK(book.lines()[0] == "ask 0 at 7");
  CHECK(eventually([&] { return first->done() == 100 && second->done() == 100; }, 10s, 1ms));
}

TEST_CASE("a fault that the master does not write down is left out, and holds no run up") {
  const auto run = std::make_shared<SteppingRun>();
  Book book(*run);
  book.answer = failed_precondition("it has come before");
  FaultInjector injector(book.announce(), book.commit(), Logger());
  injector.watch(run);
  run->extend(5);
  injector.arm({armed(0, "kill=runner:0@step=7")}, 0ms);
  run->extend(100);
  REQUIRE(eventually([&] { return run->done() == 100; }, 10s, 1ms));
  CHECK(book.lines() == std::vector<std::string>{"ask 0 at 7"});
}

TEST_CASE("a master that is away is asked again, and nothing steps meanwhile") {
  const auto run = std::make_shared<SteppingRun>();
  Book book(*run);
  const std::vector<std::string> asks(3, "ask 0 at 7");
  book.first_answers = {unavailable("the master is gone"), deadline_exceeded("no answer")};
  std::vector<std::string> expected = asks;
  SECTION("it writes the fault down") { expected.push_back("do kill=runner:0@step=7"); }
  SECTION("it had written it down, and the answer was lost") {
    book.answer = failed_precondition("fault 'kill=runner:0@step=7': it has come before");
    expected.push_back("do kill=runner:0@step=7");
  }
  SECTION("it refuses it") { book.answer = failed_precondition("the job's epoch is over"); }
  FaultInjector injector(book.announce(), book.commit(), Logger(), 60s);
  injector.watch(run);
  injector.arm({armed(0, "kill=runner:0@step=7")}, 0ms);
  run->extend(100);
  REQUIRE(eventually([&] { return run->done() == 100; }, 10s, 1ms));
  CHECK(book.lines() == expected);
}

TEST_CASE("a fault that a master wrote down before it died comes, though it is armed no more") {
  const auto run = std::make_shared<SteppingRun>();
  Book book(*run);
  book.answer = unavailable("the master is gone");
  FaultInjector injector(book.announce(), book.commit(), Logger(), 60s);
  injector.watch(run);
  injector.arm({armed(0, "kill=runner:0@step=7")}, 0ms);
  run->extend(100);
  REQUIRE(eventually([&] { return !book.lines().empty(); }, 10s, 1ms));
  injector.arm({}, 0ms);  // the next master arms it, and knows that the fault has happened
  const size_t asked = book.lines().size();
  REQUIRE(eventually([&] { return book.lines().size() > asked + 1; }, 10s, 1ms));
  CHECK(run->done() == 7);
  injector.stop();
}

TEST_CASE("a fault for which the journal has no room is asked for again") {
  const auto run = std::make_shared<SteppingRun>();
  Book book(*run);
  book.answer = resource_exhausted("the disk is full");
  FaultInjector injector(
      [&, ask = book.announce()](const ArmedFault& fault) {
        const Status answer = ask(fault);
        book.answer = {};
        return answer;
      },
      book.commit(), Logger(), 10s);
  injector.arm({armed(0, "kill=runner:0@step=7")}, 0ms);
  injector.watch(run);
  run->extend(100);
  REQUIRE(eventually([&] { return run->done() == 100; }, 10s, 1ms));
  CHECK(book.lines() ==
        std::vector<std::string>{"ask 0 at 7", "ask 0 at 7", "do kill=runner:0@step=7"});
}

TEST_CASE("a fault that is due comes at once, and only once") {
  const auto run = std::make_shared<SteppingRun>();
  Book book(*run);
  FaultInjector injector(book.announce(), book.commit(), Logger());
  injector.watch(run);
  run->extend(3);
  const ArmedFault first{0, *parse_chaos_fault("exit=runner:0@step=700"), true};
  injector.arm({first}, 0ms);
  REQUIRE(eventually([&] { return book.lines().size() == 2; }, 10s, 1ms));
  CHECK(run->done() == 3);
  CHECK(book.lines()[1] == "do exit=runner:0@step=700");
  injector.arm({first, {1, *parse_chaos_fault("kill=runner:0@step=800"), true}}, 0ms);
  REQUIRE(eventually([&] { return book.lines().size() == 4; }, 10s, 1ms));
  CHECK(book.lines()[3] == "do kill=runner:0@step=800");
  run->extend(1000);
  CHECK(run->done() == 1000);  // without a gate
}

TEST_CASE("a fault of a time counts what the job ran before") {
  const auto run = std::make_shared<SteppingRun>();
  Book book(*run);
  FaultInjector injector(book.announce(), book.commit(), Logger());
  injector.arm({armed(0, "kill=runner:0@time=1h"), armed(1, "kill=runner:0@time=59m")}, 3599s);
  injector.watch(run);
  REQUIRE(eventually([&] { return book.lines().size() == 4; }, 10s, 1ms));
  CHECK(book.lines()[1] == "do kill=runner:0@time=59m");
  CHECK(book.lines()[3] == "do kill=runner:0@time=1h");
}

TEST_CASE("a process that is stopped for a time goes on, and one that is killed does not") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const auto waited = [&](int options) {
    int status = 0;
    REQUIRE(eventually([&] { return ::waitpid(child, &status, options | WNOHANG) == child; }, 10s,
                       1ms));
    return status;
  };
  commit_chaos(*parse_chaos_fault("stop=runner:0@step=1,for=50ms"), {&child, 1});
  CHECK(WIFSTOPPED(waited(WUNTRACED)));
  CHECK(WIFCONTINUED(waited(WCONTINUED)));
  commit_chaos(*parse_chaos_fault("kill=runner:0@step=1"), {&child, 1});
  CHECK(WTERMSIG(waited(0)) == SIGKILL);
}

TEST_CASE("the next bytes sent are corrupt, once, and a slow disk is slow for its time") {
  commit_chaos(*parse_chaos_fault("corrupt=runner:0@step=1"), {});
  CHECK(!LEAT_FAILPOINT("transport/corrupt").ok());
  CHECK(LEAT_FAILPOINT("transport/corrupt").ok());
  commit_chaos(*parse_chaos_fault("corrupt=runner:0@step=2"), {});
  CHECK(!LEAT_FAILPOINT("transport/corrupt").ok());

  const auto time_of_sync = [] {
    const auto begun = std::chrono::steady_clock::now();
    CHECK(LEAT_FAILPOINT("files/sync").ok());
    return std::chrono::steady_clock::now() - begun;
  };
  commit_chaos(*parse_chaos_fault("slow=master@step=1,for=50ms"), {});
  CHECK(time_of_sync() >= 100ms);
  CHECK(eventually([&] { return time_of_sync() < 100ms; }, 10s, 1ms));
}

}  // namespace
}  // namespace leat
