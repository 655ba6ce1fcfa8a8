#include "daemon/process/lifetime.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "daemon/process/lifetime_calls.h"
#include "daemon/process/watchdog.h"
#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

// Makes the eventfd readable. It can only fail if it is readable already.
void wake(int event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(event, &one, sizeof one);
}

// Sets the defaults of options that depend on the process.
Lifetime::Options completed(Lifetime::Options options, const Clock& real_clock) {
  if (options.clock == nullptr) options.clock = &real_clock;
  if (!options.notify) {
    options.notify = [](const std::string& message) { (void)::sd_notify(0, message.c_str()); };
  }
  if (!options.exit) options.exit = [](int code) { ::_exit(code); };
  uint64_t watchdog_us = 0;
  if (::sd_watchdog_enabled(0, &watchdog_us) > 0) {
    // Half of systemd's time, so that the log names a silent loop before systemd ends the process.
    options.silence =
        std::chrono::duration_cast<milliseconds>(std::chrono::microseconds(watchdog_us / 2));
  }
  return options;
}

// Blocks the signals of lifetime.h on this thread and on those that it starts, and reads them from
// a descriptor instead. Threads: one; read() from any.
class BlockedSignals {
 public:
  ~BlockedSignals() {
    if (blocked_) ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  }

  Status block() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : kSignals) sigaddset(&set, signal);
    // The descriptor comes before the block: if it fails, the signals keep their usual effect.
    descriptor_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor_) return system_error("the descriptors for signals", errno);
    // A peer that has closed its socket is an error of the write, and must not end the daemon.
    ::signal(SIGPIPE, SIG_IGN);
    ::pthread_sigmask(SIG_BLOCK, &set, &old_mask_);
    blocked_ = true;
    return {};
  }

  int descriptor() const { return descriptor_.get(); }
  // Returns the next signal that has arrived, if any.
  std::optional<int> read() {
    signalfd_siginfo info;
    if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  Descriptor descriptor_;
  sigset_t old_mask_{};
  bool blocked_ = false;
};

}  // namespace

// The state of a Lifetime, and its thread.
class Lifetime::Core {
 public:
  explicit Core(Options options)
      : options_(completed(std::move(options), real_clock_)),
        notices_(options_.notify, options_.ready_fd, options_.log),
        watchdog_(calls_, options_.silence, options_.log) {}
  ~Core();

  Status start();
  void request_stop(int signal, std::string_view why);
  bool stop_requested() const { return stop_requested_.load(std::memory_order_acquire); }
  bool wait_for_stop(std::optional<milliseconds> timeout) const;
  int stop_signal() const { return stop_signal_.load(); }

  Notices& notices() { return notices_; }
  LifetimeCalls& calls() { return calls_; }
  uint64_t add_stop(std::function<void()> call);
  uint64_t add_watch(std::string name, std::function<void(LifeSign)> ask);

 private:
  void run();
  milliseconds until_next() const;
  void on_signal(int signal);
  void begin_stop();
  void reload();
  void dump();
  void give_up();

  const RealClock real_clock_;
  const Options options_;
  LifetimeCalls calls_;
  Notices notices_;
  BlockedSignals signals_;
  Descriptor wake_;
  std::thread thread_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // a stop was requested
  std::atomic<bool> stop_requested_ = false;
  std::atomic<bool> closing_ = false;
  std::atomic<int> stop_signal_ = 0;

  // The thread alone uses the members below.
  Watchdog watchdog_;
  // Set when the stop has begun: the time at which it is forced; max() after that.
  std::optional<std::chrono::steady_clock::time_point> stop_deadline_;
  std::chrono::steady_clock::time_point first_signal_;
};

Status Lifetime::Core::start() {
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return system_error("the descriptors for signals", errno);
  LEAT_RETURN_IF_ERROR(signals_.block());
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return resource_exhausted(cat("the thread for signals: ", error.what()));
  }
  return {};
}

Lifetime::Core::~Core() {
  closing_ = true;
  if (!thread_.joinable()) return;
  wake(wake_.get());
  thread_.join();
}

// --- the thread ---

void Lifetime::Core::run() {
  ::pthread_setname_np(::pthread_self(), "lifetime");
  while (!closing_) {
    std::array<pollfd, 2> fds = {{{signals_.descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    // Everything is looked at after each wake-up, so it does not matter which descriptor woke the
    // thread.
    ::poll(fds.data(), fds.size(), static_cast<int>(until_next().count()));
    uint64_t ignored = 0;
    while (::read(wake_.get(), &ignored, sizeof ignored) > 0) {
    }
    // Signals come first, because a second SIGTERM must end the process even if the stop hangs in
    // another thread.
    while (const auto signal = signals_.read()) on_signal(*signal);
    if (stop_requested() && !stop_deadline_) begin_stop();
    const auto now = std::chrono::steady_clock::now();
    if (now >= watchdog_.due() && watchdog_.look(now)) notices_.send("WATCHDOG=1");
    if (stop_deadline_ && now >= *stop_deadline_) give_up();
  }
}

// Returns the time until the thread must look at the watchdog or at the deadline.
milliseconds Lifetime::Core::until_next() const {
  auto next = watchdog_.due();
  if (stop_deadline_) next = std::min(next, *stop_deadline_);
  const auto left = std::chrono::ceil<milliseconds>(next - std::chrono::steady_clock::now());
  return std::clamp(left, milliseconds(0), milliseconds(std::numeric_limits<int>::max()));
}

void Lifetime::Core::on_signal(int signal) {
  switch (signal) {
    case SIGHUP:
      return reload();
    case SIGUSR1:
      return dump();
    default:
      break;
  }
  const char* name = signal == SIGINT ? "SIGINT" : "SIGTERM";
  const auto now = std::chrono::steady_clock::now();
  // The daemon may be stopping by itself already. Then this first signal changes nothing, but the
  // next one ends the process.
  if (stop_signal() == 0) {
    first_signal_ = now;
    request_stop(signal, cat("received ", name));
  } else if (now - first_signal_ < options_.same_signal) {
    options_.log.debug("received ", name, " again at once: taken for the same");
  } else {
    options_.log.warning("received a second signal, ", name, ": ending at once");
    options_.exit(128 + signal);
  }
}

void Lifetime::Core::begin_stop() {
  // The time runs from here, before the callbacks, whose work is a part of the stop.
  stop_deadline_ = std::chrono::steady_clock::now() + options_.stop_deadline;
  notices_.send("STOPPING=1\nSTATUS=stopping");
  calls_.for_each([](LifetimeCall& call) {
    if (call.stop) call.stop();
  });
}

void Lifetime::Core::reload() {
  options_.log.info("received SIGHUP: opening the log and reading the secrets again");
  const bool was_ready = notices_.is_ready();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  // systemd wants the time of CLOCK_MONOTONIC with RELOADING, which is that of the steady clock.
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  if (was_ready) notices_.send(cat("RELOADING=1\nMONOTONIC_USEC=", now_us));
  calls_.for_each([](LifetimeCall& call) {
    if (call.reload) call.reload();
  });
  options_.log.info("reloaded");
  if (was_ready) notices_.send("READY=1");
}

void Lifetime::Core::dump() {
  std::string text;
  // Each part of the daemon adds its own text. The loops show when each of them was last alive.
  calls_.for_each([&](LifetimeCall& call) {
    if (call.dump) text += call.dump() + "\n";
    if (call.watched.empty()) return;
    const std::string age = tenths_of_seconds(call.heart.age());
    text += cat("loop ", call.watched, ": last sign of life ", age, " ago\n");
  });
  text += notices_.describe();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) options_.log.info("state: ", line);
  }
}

// Ends the process by force: the stop took too long.
void Lifetime::Core::give_up() {
  // So that this is done once, in tests where the exit returns.
  stop_deadline_ = std::chrono::steady_clock::time_point::max();
  const std::string allowed = tenths_of_seconds(options_.stop_deadline);
  const std::string waits_for = notices_.waits_for();
  options_.log.error("the stop took longer than ", allowed, "; it waited for: ", waits_for);
  notices_.gave_up();
  options_.exit(1);
}

// --- calls of other threads ---

void Lifetime::Core::request_stop(int signal, std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
    // Both change under the lock, so that a thread that is about to wait cannot miss the
    // notification.
    if (signal != 0) stop_signal_ = signal;
    if (stop_requested_.exchange(true)) return;
  }
  options_.log.info(why, ": stopping");
  changed_.notify_all();
  wake(wake_.get());
}

bool Lifetime::Core::wait_for_stop(std::optional<milliseconds> timeout) const {
  std::unique_lock lock(mutex_);
  const auto requested = [&] { return stop_requested(); };
  if (timeout) return changed_.wait_for(lock, *timeout, requested);
  changed_.wait(lock, requested);
  return true;
}

uint64_t Lifetime::Core::add_stop(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);  // against request_stop(): one of both runs the call
    if (!stop_requested()) return calls_.add({.stop = std::move(call)});
  }
  // The stop has begun, and its callbacks may have been called already. This one runs here instead.
  call();
  return 0;
}

uint64_t Lifetime::Core::add_watch(std::string name, std::function<void(LifeSign)> ask) {
  return calls_.add(
      {.watched = std::move(name), .ask = std::move(ask), .heart = LifeSign(*options_.clock)});
}

// --- the public classes ---

Registration::Registration(Registration&& other) noexcept
    : number_(std::exchange(other.number_, 0)), end_(std::exchange(other.end_, nullptr)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  // The old registration ends before the new one takes its place.
  release();
  number_ = std::exchange(other.number_, 0);
  end_ = std::exchange(other.end_, nullptr);
  return *this;
}

void Registration::release() {
  const uint64_t number = std::exchange(number_, 0);
  if (const auto end = std::exchange(end_, nullptr)) end(number);
}

Lifetime::Lifetime(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Lifetime::~Lifetime() = default;

// add_stop() returns 0 for a call that was made at once.
Registration Lifetime::registered(uint64_t number) {
  if (number == 0) return {};
  return {number, [this](uint64_t each) { core_->calls().remove(each); }};
}

Result<std::unique_ptr<Lifetime>> Lifetime::start(Options options) {
  auto core = std::make_unique<Core>(std::move(options));
  LEAT_RETURN_IF_ERROR(core->start());
  return std::unique_ptr<Lifetime>(new Lifetime(std::move(core)));
}

bool Lifetime::stop_requested() const { return core_->stop_requested(); }
void Lifetime::wait_for_stop() const { core_->wait_for_stop(std::nullopt); }
bool Lifetime::wait_for_stop(milliseconds timeout) const { return core_->wait_for_stop(timeout); }
void Lifetime::request_stop(std::string_view why) { core_->request_stop(0, why); }
int Lifetime::stop_signal() const { return core_->stop_signal(); }
Registration Lifetime::on_stop(std::function<void()> call) {
  return registered(core_->add_stop(std::move(call)));
}

void Lifetime::ready(std::string_view status, const ReadyAddresses& addresses) {
  core_->notices().ready(status, addresses);
}
void Lifetime::status(std::string_view text) { core_->notices().status(text); }
void Lifetime::stopping(std::string_view waits_for) { core_->notices().stopping(waits_for); }
void Lifetime::extend_timeout(milliseconds by) {
  core_->notices().send(cat("EXTEND_TIMEOUT_USEC=", by.count() * 1000));
}

Registration Lifetime::on_reload(std::function<void()> call) {
  return registered(core_->calls().add({.reload = std::move(call)}));
}
Registration Lifetime::on_dump(std::function<std::string()> call) {
  return registered(core_->calls().add({.dump = std::move(call)}));
}
Registration Lifetime::watch(std::string name, std::function<void(LifeSign)> ask) {
  return registered(core_->add_watch(std::move(name), std::move(ask)));
}
LifeSign Lifetime::heart(const Registration& watched) const {
  return core_->calls().heart(watched.number());
}

}  // namespace leat
