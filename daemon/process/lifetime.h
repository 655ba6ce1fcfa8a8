// The life of a daemon as the system sees it: signals, notifications to systemd, its watchdog, and
// a bound on the duration of a stop.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/process/life_sign.h"
#include "daemon/process/notices.h"
#include "devices/base/clock.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

// Keeps a callback registered with a Lifetime until it is destroyed. It may be moved, but not
// copied. Its destructor waits for a call in progress, so never destroy it from within that call.
// REQUIRES: the Lifetime still exists.
class [[nodiscard]] Registration {
 public:
  Registration() = default;
  // `end` is called once, with the number that the callback has among those of its Lifetime.
  Registration(uint64_t number, std::function<void(uint64_t)> end)
      : number_(number), end_(std::move(end)) {}
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration() { release(); }
  // Ends the registration early. Like the destructor, it waits for a call in progress.
  void release();
  // 0 if it is not registered.
  uint64_t number() const { return number_; }

 private:
  uint64_t number_ = 0;
  std::function<void(uint64_t)> end_;
};

// The Lifetime of a process handles these signals:
//
// SIGTERM, SIGINT   ask for a graceful stop. The second of them ends the process at once, with
//                   128 + its number. A signal within `same_signal` of the first counts as the same
//                   one: timeout(1) and shells signal a process and also its group
// SIGHUP            calls on_reload(): the daemon opens its log again, reads secrets
//                   and certificates
// SIGUSR1           calls on_dump(): the daemon logs what it is doing
//
// The signals are blocked. One thread, "lifetime", reads them from a signalfd and calls all
// registered callbacks, so callbacks are ordinary code. They must not block for long, since
// watchdog and deadline wait meanwhile.
//
// If a stop takes longer than `stop_deadline`, the Lifetime logs what it waited for (see
// stopping()) and ends the process with exit code 1.
//
// The watchdog: systemd gets WATCHDOG=1 only while every watched loop shows life. The name of a
// silent loop is logged, and so is its return, even without systemd's watchdog.
//
// A child process must be spawned with no signal blocked (POSIX_SPAWN_SETSIGMASK with an empty
// set), and without NOTIFY_SOCKET and WATCHDOG_USEC in its environment.
//
// Threads: any, unless a member says otherwise. A process has one Lifetime.
class Lifetime {
 public:
  struct Options {
    // The time that a stop may take.
    std::chrono::milliseconds stop_deadline{20'000};
    // The time within which a second signal counts as the first.
    std::chrono::milliseconds same_signal{200};
    // The descriptor to which ready() writes one line of JSON,
    // {"listen":...,"http":...,"data":...,"pid":...}, without the ports that the daemon does not
    // have. ready() closes it then. -1: none.
    int ready_fd = -1;
    // How long a watched loop may be silent. If systemd sets WATCHDOG_USEC, it is half of that.
    std::chrono::milliseconds silence{15'000};
    Logger log = {};

    // For tests: replaces sd_notify(). `message` is, for example, "READY=1\nSTATUS=...".
    std::function<void(const std::string& message)> notify = {};
    // For tests: replaces _exit().
    std::function<void(int exit_code)> exit = {};
    const Clock* clock = nullptr;  // of heartbeats; null: the real one. It outlives the Lifetime
  };

  // Blocks the signals and starts the thread. Reads systemd's environment. REQUIRES: the process
  // has started no other thread yet, so that all threads inherit the blocked signals.
  static Result<std::unique_ptr<Lifetime>> start(Options options);
  // Ends the thread and restores the signal mask of the calling thread. REQUIRES: nothing is
  // registered.
  ~Lifetime();
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  // --- the stop ---

  bool stop_requested() const;
  // Blocks until a stop is requested, for any length of time: a daemon runs that long.
  void wait_for_stop() const;
  // Returns true if a stop was requested before `timeout` passed.
  bool wait_for_stop(std::chrono::milliseconds timeout) const;
  // Requests a stop like SIGTERM does, for a daemon that ends by itself. `why` goes to the log.
  void request_stop(std::string_view why);
  // The signal that requested the stop; 0 if no signal did.
  int stop_signal() const;
  // Sets the exit code of a daemon that ends with an error. The default is 1.
  void fail_with(int exit_code) { failure_code_ = exit_code; }
  int failure_code() const { return failure_code_; }
  // `call` runs once when a stop is requested; if one was requested already, the calling thread
  // runs it at once.
  Registration on_stop(std::function<void()> call);

  // --- reports to the outside ---

  // Reports that the daemon works; call it once. `status` is a line for people: "4 workers, 2
  // jobs".
  void ready(std::string_view status, const ReadyAddresses& addresses);
  // Sets a new line for `systemctl status`.
  void status(std::string_view text);
  // Sets what the stop waits for now, such as "2 runners". systemctl shows it, and the log names it
  // if the deadline passes.
  void stopping(std::string_view waits_for);
  // Asks systemd for more time to start or stop than the unit's timeout, for work that is known to
  // take long.
  void extend_timeout(std::chrono::milliseconds by);

  // --- callbacks and the watchdog ---

  // `call` runs at each SIGHUP.
  Registration on_reload(std::function<void()> call);
  // `call` runs at each SIGUSR1. The log gets its text line by line.
  Registration on_dump(std::function<std::string()> call);

  // Watches a loop. Several times in each `silence`, the Lifetime calls `ask` with the loop's
  // heartbeat. `ask` has that loop run beat(), after the work that the loop has queued:
  //
  //   watch("rpc", [&](LifeSign heart) { (void)loop.post([heart] { heart.beat(); }); });
  //
  // If `ask` is empty, the loop itself must call beat() on its heartbeat, which heart() returns.
  // The loop counts as alive at the time of this call.
  Registration watch(std::string name, std::function<void(LifeSign)> ask);
  LifeSign heart(const Registration& watched) const;

 private:
  class Core;
  explicit Lifetime(std::unique_ptr<Core> core);
  Registration registered(uint64_t number);
  std::unique_ptr<Core> core_;
  std::atomic<int> failure_code_ = 1;
};

}  // namespace leat
