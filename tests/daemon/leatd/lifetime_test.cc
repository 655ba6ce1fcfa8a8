#include "daemon/process/lifetime.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// Records messages in order. Threads: any.
class Record {
 public:
  void add(std::string text) {
    const std::lock_guard lock(mutex_);
    said_.push_back(std::move(text));
    changed_.notify_all();
  }
  // Waits up to 30 s for a message with `text`, or finds an earlier one. False if none came.
  bool wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 30s, [&] { return find(text); });
  }
  bool has(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return find(text);
  }
  // Waits up to `patience` for a new message with `text`. False if none came.
  bool comes(const std::string& text, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    said_.clear();
    return changed_.wait_for(lock, patience, [&] { return find(text); });
  }

 private:
  bool find(const std::string& text) const {
    for (const std::string& one : said_) {
      if (one.find(text) != std::string::npos) return true;
    }
    return false;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> said_;
};

class RecordSink final : public LogSink {
 public:
  explicit RecordSink(Record& record) : record_(record) {}
  void write(LogLevel level, std::string_view, std::string_view text) override {
    record_.add(std::string(log_level_name(level)) + " " + std::string(text));
  }

 private:
  Record& record_;
};

// A lifetime that does not end the process, and that reports its notifications.
struct Observed {
  explicit Observed(std::chrono::milliseconds stop_deadline = 20s, int ready_fd = -1) {
    Lifetime::Options options;
    options.stop_deadline = stop_deadline;
    options.ready_fd = ready_fd;
    options.silence = 20ms;
    options.log = Logger("test", LogLevel::debug, std::make_shared<RecordSink>(log));
    options.notify = [this](const std::string& message) { notes.add(message); };
    options.exit = [this](int code) { notes.add("exit " + std::to_string(code)); };
    options.clock = &clock;
    auto started = Lifetime::start(std::move(options));
    REQUIRE(started.status().message() == "");
    lifetime = std::move(*started);
  }

  Record log, notes;
  ManualClock clock;
  std::unique_ptr<Lifetime> lifetime;
};

// Returns the exit status of a child that calls `body`. Signals are for a process of one thread.
template <typename Body>
int child_exit(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_CASE("the first signal asks a daemon to stop and the second one ends it") {
  const auto stopped_by = [](int first, int second) {
    return child_exit([=] {
      auto lifetime = Lifetime::start({.same_signal = 0ms});
      if (!lifetime.ok() || (*lifetime)->stop_requested()) return 1;
      ::kill(::getpid(), first);
      (*lifetime)->wait_for_stop();
      if ((*lifetime)->stop_signal() != first) return 2;
      if (second == 0) return 0;
      ::kill(::getpid(), second);
      for (;;) ::pause();  // until the lifetime ends the process, or the alarm
    });
  };
  CHECK(stopped_by(SIGTERM, 0) == 0);
  CHECK(stopped_by(SIGINT, 0) == 0);
  CHECK(stopped_by(SIGTERM, SIGTERM) == 143);
  CHECK(stopped_by(SIGTERM, SIGINT) == 130);
  CHECK(stopped_by(SIGINT, SIGTERM) == 143);
}

TEST_CASE("a signal to a process and to its group is one signal") {
  const int code = child_exit([] {
    Record log;
    Lifetime::Options options;
    options.same_signal = 1h;
    options.log = Logger("test", LogLevel::debug, std::make_shared<RecordSink>(log));
    auto lifetime = Lifetime::start(std::move(options));
    if (!lifetime.ok()) return 1;
    ::kill(::getpid(), SIGTERM);
    (*lifetime)->wait_for_stop();
    ::kill(::getpid(), SIGTERM);
    return log.wait_for("received SIGTERM again at once") ? 0 : 2;
  });
  CHECK(code == 0);
}

TEST_CASE("SIGHUP reloads and SIGUSR1 dumps, and neither stops") {
  const int code = child_exit([] {
    Record log, notes;
    Lifetime::Options options;
    options.log = Logger("test", LogLevel::info, std::make_shared<RecordSink>(log));
    options.notify = [&](const std::string& message) { notes.add(message); };
    auto lifetime = Lifetime::start(std::move(options));
    if (!lifetime.ok()) return 1;
    (*lifetime)->ready("fine", {});
    const auto reload = (*lifetime)->on_reload([&] { log.add("reload called"); });
    const auto dump = (*lifetime)->on_dump([] { return std::string("2 jobs\n1 worker"); });
    const auto watch = (*lifetime)->watch("rpc", nullptr);
    ::kill(::getpid(), SIGHUP);
    if (!log.wait_for("reload called") || !notes.wait_for("RELOADING=1\nMONOTONIC_USEC=")) return 2;
    if (!log.wait_for("reloaded")) return 3;
    ::kill(::getpid(), SIGUSR1);
    if (!log.wait_for("state: 2 jobs") || !log.wait_for("state: 1 worker")) return 4;
    if (!log.wait_for("state: loop rpc: last sign of life ")) return 5;
    if (!log.wait_for("state: status: fine")) return 6;
    return (*lifetime)->stop_requested() ? 7 : 0;
  });
  CHECK(code == 0);
}

TEST_CASE("the signal mask comes back with the end of a lifetime") {
  sigset_t before, during, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    const Observed observed;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &during);
  }
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    CHECK(::sigismember(&during, signal) == 1);
    CHECK(::sigismember(&after, signal) == ::sigismember(&before, signal));
  }
}

TEST_CASE("a stop that is asked for calls its waiter, once") {
  Observed observed;
  Lifetime& lifetime = *observed.lifetime;
  Record calls;
  const Registration first = lifetime.on_stop([&] { calls.add("first"); });
  {
    const Registration gone = lifetime.on_stop([&] { calls.add("gone"); });
  }
  CHECK_FALSE(lifetime.wait_for_stop(0ms));
  lifetime.request_stop("the test is over");
  lifetime.request_stop("again");
  CHECK(lifetime.wait_for_stop(30s));
  CHECK(lifetime.stop_signal() == 0);
  CHECK(calls.wait_for("first"));
  bool late = false;
  const Registration second = lifetime.on_stop([&] { late = true; });
  CHECK(late);
  CHECK(observed.log.has("info the test is over: stopping"));
  CHECK_FALSE(observed.log.has("again"));
  CHECK(observed.notes.has("STOPPING=1"));
  CHECK_FALSE(calls.has("gone"));
}

TEST_CASE("a stop that takes too long says what it waited for and exits with 1") {
  Observed observed(300ms);
  observed.lifetime->stopping("2 runners");
  observed.lifetime->request_stop("enough");
  CHECK(observed.notes.wait_for("exit 1"));
  CHECK(observed.log.has("error the stop took longer than 0.3 s; it waited for: 2 runners"));
  CHECK(observed.notes.has("STATUS=gave up to stop; waited for: 2 runners"));
}

TEST_CASE("a ready daemon prints its addresses in one line of JSON") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  Observed observed(20s, ends[1]);
  observed.lifetime->ready("2 workers\nREADY=0",
                           {.listen = "127.0.0.1:1", .http = "", .data = "b:2"});
  CHECK(observed.notes.has("READY=1\nSTATUS=2 workers READY=0"));
  char text[256] = {};
  CHECK(::read(ends[0], text, sizeof text - 1) > 0);
  CHECK(std::string(text) == "{\"listen\": \"127.0.0.1:1\", \"data\": \"b:2\", \"pid\": " +
                                 std::to_string(::getpid()) + "}\n");
  CHECK(::read(ends[0], text, sizeof text) == 0);  // closed
  ::close(ends[0]);
}

TEST_CASE("a reader of the ready line that is gone does no harm") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  Observed observed(20s, ends[1]);
  observed.lifetime->ready("fine", {});
  CHECK(observed.log.has("of --ready-fd: Broken pipe"));
}

TEST_CASE("the watchdog hears something only while every loop is alive") {
  Observed observed;
  Lifetime& lifetime = *observed.lifetime;
  std::atomic<bool> stuck = false;
  const Registration asked = lifetime.watch("rpc", [&](LifeSign sign) {
    if (!stuck) sign.beat();
  });
  const Registration own = lifetime.watch("io", nullptr);
  const LifeSign io = lifetime.heart(own);
  CHECK(observed.notes.comes("WATCHDOG=1", 30s));

  stuck = true;
  observed.clock.advance(1s);
  io.beat();
  CHECK(observed.log.wait_for("error loop rpc has shown no life for 1.0 s"));
  CHECK_FALSE(observed.notes.comes("WATCHDOG=1", 60ms));  // it would come every 5 ms

  stuck = false;
  CHECK(observed.log.wait_for("warning loop rpc is alive again"));
  CHECK(observed.notes.comes("WATCHDOG=1", 30s));
}

TEST_CASE("a loop that is no longer watched need not live") {
  Observed observed;
  {
    const Registration own = observed.lifetime->watch("io", nullptr);
    observed.clock.advance(1s);
    CHECK(observed.log.wait_for("loop io has shown no life"));
  }
  CHECK(observed.notes.comes("WATCHDOG=1", 30s));
}

TEST_CASE("to unregister waits for a call in progress") {
  Observed observed;
  std::atomic<bool> entered = false, ended = false, leave = false;
  Registration asked = observed.lifetime->watch("rpc", [&](LifeSign) {
    entered = true;
    while (!leave) std::this_thread::yield();
    ended = true;
  });
  while (!entered) std::this_thread::yield();
  std::atomic<bool> ended_at_release = false;
  std::thread release([&] {
    asked.release();
    ended_at_release = ended.load();
  });
  leave = true;
  release.join();
  CHECK(ended_at_release);
}

}  // namespace
}  // namespace leat
