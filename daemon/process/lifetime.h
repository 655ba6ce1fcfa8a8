// The life of a daemon as the system sees it: signals, systemd's notifications, its watchdog, and a
// bound on how long the end may take.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/process/life_sign.h"
#include "daemon/process/notices.h"
#include "devices/base/clock.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

class Lifetime;

// Registers with a Lifetime as long as it exists; it may be moved, not copied. Destroying it waits
// for a call in progress: never destroy it from within that call. REQUIRES: the Lifetime still
// exists.
class [[nodiscard]] Registration {
 public:
  Registration() = default;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration() { release(); }
  void release();

 private:
  friend class Lifetime;
  Registration(Lifetime* lifetime, uint64_t id) : lifetime_(lifetime), id_(id) {}
  Lifetime* lifetime_ = nullptr;
  uint64_t id_ = 0;
};

// SIGTERM, SIGINT   ask for a graceful stop; the second of them ends the process at once, with
//                   128 + its number. One that follows within `same_signal` is the first one again:
//                   timeout(1) and shells signal a process and its group
// SIGHUP            on_reload(): the log is opened again
// SIGUSR1           on_dump(): what the daemon is doing goes to the log
//
// Signals are blocked and read from a signalfd by one thread, "lifetime", which calls everything
// that is registered here; so callbacks are ordinary code. They must not block for long: watchdog
// and deadline wait meanwhile.
//
// A stop that takes longer than `stop_deadline` is logged with what it waited for (stopping()),
// and ends the process with exit code 1.
//
// The watchdog: systemd gets WATCHDOG=1 only while every watched loop shows life. One that is
// silent is logged by name, as is its return; also where there is no watchdog.
//
// A child must be spawned with no signal blocked (POSIX_SPAWN_SETSIGMASK with an empty set) and its
// environment without NOTIFY_SOCKET and WATCHDOG_USEC.
//
// Threads: any, unless a member says otherwise. One of them exists in a process.
class Lifetime {
 public:
  struct Options {
    std::chrono::milliseconds stop_deadline{20'000};
    std::chrono::milliseconds same_signal{200};
    // Where ready() writes one line of JSON: {"listen":...,"http":...,"data":...,"pid":...},
    // without the ports that there are not. -1: nowhere. It is closed then.
    int ready_fd = -1;
    // How long a watched loop may be silent. systemd's WATCHDOG_USEC / 2, where it is set.
    std::chrono::milliseconds silence{15'000};
    Logger log = {};

    // For tests. Takes the place of sd_notify(): "READY=1\nSTATUS=...".
    std::function<void(const std::string& message)> notify = {};
    // Takes the place of _exit().
    std::function<void(int exit_code)> exit = {};
    const Clock* clock = nullptr;  // of heartbeats; null: the real one. It outlives the Lifetime
  };

  // REQUIRES: no other thread of the process was started yet, so that all inherit the blocked
  // signals. Reads systemd's environment.
  static Result<std::unique_ptr<Lifetime>> start(Options options);
  // Ends the thread and puts the signal mask of this thread back. REQUIRES: nothing is registered.
  ~Lifetime();
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  // --- the stop ---

  bool stop_requested() const;
  // Returns when a stop is asked for; in no bounded time, for that is what a daemon does.
  void wait_for_stop() const;
  // True if a stop was asked for before `timeout` passed.
  bool wait_for_stop(std::chrono::milliseconds timeout) const;
  // As SIGTERM does: for a daemon that ends by itself. `why` goes to the log.
  void request_stop(std::string_view why);
  // 0: no signal asked for the stop.
  int stop_signal() const;
  // The exit code of a daemon that ends with an error, in place of 1.
  void fail_with(int exit_code) { failure_code_ = exit_code; }
  int failure_code() const { return failure_code_; }
  // Called once when a stop is asked for; at once, by the caller's thread, if it was already.
  Registration on_stop(std::function<void()> call);

  // --- what the outside sees ---

  // Everything works: once. `status` is a line for people: "4 workers, 2 jobs".
  void ready(std::string_view status, const ReadyAddresses& addresses);
  // A new line for `systemctl status`.
  void status(std::string_view text);
  // What the stop waits for now: "2 runners". Shown, and named when the deadline passes.
  void stopping(std::string_view waits_for);
  // More time than the unit's timeout allows to start or stop: for what is known to take long.
  void extend_timeout(std::chrono::milliseconds by);

  // --- the rest ---

  Registration on_reload(std::function<void()> call);
  // The text is logged line by line.
  Registration on_dump(std::function<std::string()> call);

  // Watches a loop. Several times in each `silence`, `ask` is called with its heartbeat and has
  // beat() run on that loop, where it waits its turn behind the loop's work:
  //
  //   watch("rpc", [&](LifeSign heart) { (void)loop.post([heart] { heart.beat(); }); });
  //
  // With no `ask` the loop beats by itself: heart() has its heartbeat. Counts as alive now.
  Registration watch(std::string name, std::function<void(LifeSign)> ask);
  LifeSign heart(const Registration& watched) const;

 private:
  friend class Registration;
  class Core;
  explicit Lifetime(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
  std::atomic<int> failure_code_ = 1;
};

}  // namespace leat
