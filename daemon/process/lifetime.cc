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
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "daemon/base/json_line.h"
#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
constexpr int kAsksPerSilence = 4;

sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

std::string seconds(Clock::Steady::duration time) {
  const auto tenths = std::chrono::duration_cast<milliseconds>(time).count() / 100;
  return cat(tenths / 10, ".", tenths % 10, " s");
}

// One line, whatever the text: a newline would begin another assignment for systemd.
std::string status_line(std::string_view text) {
  std::string line = "STATUS=";
  for (const char c : text) line += c == '\n' ? ' ' : c;
  return line;
}

std::string ready_line(const ReadyAddresses& addresses) {
  JsonLine line;
  if (!addresses.listen.empty()) line.add("listen", addresses.listen);
  if (!addresses.http.empty()) line.add("http", addresses.http);
  if (!addresses.data.empty()) line.add("data", addresses.data);
  return line.add("pid", int64_t{::getpid()}).text();
}

// A reader that is gone, or whose pipe is full, is no reason to end: it is logged.
Status write_line(int fd, std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(fd, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(cat("the descriptor ", fd, " of --ready-fd"), errno);
    line.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

void wake(int event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(event, &one, sizeof one);
}

}  // namespace

class Lifetime::Core {
 public:
  explicit Core(Options options);
  ~Core();

  Status start();
  void request_stop(int signal, std::string_view why);
  bool stop_requested() const { return stop_requested_.load(std::memory_order_acquire); }
  bool wait_for_stop(std::optional<milliseconds> timeout) const;
  int stop_signal() const { return stop_signal_.load(); }

  void ready(std::string_view status, const ReadyAddresses& addresses);
  void status(std::string_view text);
  void stopping(std::string_view waits_for);
  void notify(const std::string& message) { options_.notify(message); }

  uint64_t add_stop(std::function<void()> call);
  uint64_t add_reload(std::function<void()> call) { return add({.reload = std::move(call)}); }
  uint64_t add_dump(std::function<std::string()> call) { return add({.dump = std::move(call)}); }
  uint64_t add_watch(std::string name, std::function<void(LifeSign)> ask);
  LifeSign heart(uint64_t id) const;
  void remove(uint64_t id);

 private:
  // One of its functions is set, but for a watch that is not asked.
  struct Entry {
    std::function<void()> stop = {}, reload = {};
    std::function<std::string()> dump = {};
    std::string watched = {};  // the name of a watched loop
    std::function<void(LifeSign)> ask = {};
    LifeSign heart = {};
    bool silent = false;
  };

  void run();
  milliseconds until_next() const;
  void on_signal(int signal);
  void begin_stop();
  void reload();
  void dump();
  void ask_all();
  bool judge_hearts();
  bool judge(Entry& entry);
  void give_up();
  void report(bool silent, const Entry& entry, Clock::Steady::duration age);

  uint64_t add(Entry entry);
  // Calls `use` with each entry, which may come and go meanwhile, without the lock.
  void for_each(const std::function<void(Entry&)>& use);
  Clock::Steady::duration age_of(const Entry& entry) const {
    return options_.clock->steady().time_since_epoch() -
           Clock::Steady::duration(entry.heart.last_->load());
  }

  Options options_;
  RealClock real_clock_;
  Descriptor signals_, wake_;
  sigset_t old_mask_{};
  bool masked_ = false;
  std::thread thread_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // a stop was asked for, or a call has ended
  std::map<uint64_t, Entry> entries_;        // in the order in which they came
  uint64_t last_id_ = 0;
  uint64_t calling_ = 0;  // the entry that is called now; 0: none
  std::string status_, waits_for_;
  bool ready_ = false;

  std::atomic<bool> stop_requested_ = false;
  std::atomic<bool> closing_ = false;
  std::atomic<int> stop_signal_ = 0;

  // The thread's alone.
  bool stop_begun_ = false, gave_up_ = false;
  std::chrono::steady_clock::time_point stop_deadline_, next_ask_, first_signal_;
};

Lifetime::Core::Core(Options options) : options_(std::move(options)) {
  if (options_.clock == nullptr) options_.clock = &real_clock_;
  if (!options_.notify) {
    options_.notify = [](const std::string& message) { (void)::sd_notify(0, message.c_str()); };
  }
  if (!options_.exit) options_.exit = [](int code) { ::_exit(code); };
  uint64_t watchdog_us = 0;
  if (::sd_watchdog_enabled(0, &watchdog_us) > 0) {
    options_.silence =
        std::chrono::duration_cast<milliseconds>(std::chrono::microseconds(watchdog_us / 2));
  }
}

Status Lifetime::Core::start() {
  const sigset_t set = signal_set();
  signals_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signals_ || !wake_) return system_error("the descriptors for signals", errno);
  ::signal(SIGPIPE, SIG_IGN);
  ::pthread_sigmask(SIG_BLOCK, &set, &old_mask_);
  masked_ = true;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return resource_exhausted(cat("the thread for signals: ", error.what()));
  }
  return {};
}

Lifetime::Core::~Core() {
  closing_ = true;
  if (thread_.joinable()) {
    wake(wake_.get());
    thread_.join();
  }
  if (masked_) ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  if (options_.ready_fd >= 0) ::close(options_.ready_fd);
}

// --- the thread ---

void Lifetime::Core::run() {
  ::pthread_setname_np(::pthread_self(), "lifetime");
  next_ask_ = std::chrono::steady_clock::now();
  while (!closing_) {
    std::array<pollfd, 2> fds = {{{signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), static_cast<int>(until_next().count()));
    uint64_t ignored = 0;
    while (::read(wake_.get(), &ignored, sizeof ignored) > 0) {
    }
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      on_signal(static_cast<int>(info.ssi_signo));
    }
    if (stop_requested() && !stop_begun_) begin_stop();
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_ask_) {
      next_ask_ = now + options_.silence / kAsksPerSilence;
      ask_all();
      if (judge_hearts()) notify("WATCHDOG=1");
    }
    if (stop_begun_ && !gave_up_ && now >= stop_deadline_) give_up();
  }
}

milliseconds Lifetime::Core::until_next() const {
  auto next = next_ask_;
  if (stop_begun_ && !gave_up_) next = std::min(next, stop_deadline_);
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
  stop_begun_ = true;
  stop_deadline_ = std::chrono::steady_clock::now() + options_.stop_deadline;
  notify("STOPPING=1\nSTATUS=stopping");
  for_each([](Entry& entry) {
    if (entry.stop) entry.stop();
  });
}

void Lifetime::Core::reload() {
  options_.log.info("received SIGHUP: opening the log again");
  bool was_ready = false;
  {
    const std::lock_guard lock(mutex_);
    was_ready = ready_;
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  if (was_ready) notify(cat("RELOADING=1\nMONOTONIC_USEC=", now_us));
  for_each([](Entry& entry) {
    if (entry.reload) entry.reload();
  });
  options_.log.info("reloaded");
  if (was_ready) notify("READY=1");
}

void Lifetime::Core::dump() {
  std::string text;
  for_each([&](Entry& entry) {
    if (entry.dump) text += entry.dump() + "\n";
    if (!entry.watched.empty()) {
      text += cat("loop ", entry.watched, ": last sign of life ", seconds(age_of(entry)), " ago\n");
    }
  });
  {
    const std::lock_guard lock(mutex_);
    if (!status_.empty()) text += cat("status: ", status_, "\n");
    if (!waits_for_.empty()) text += cat("stopping, waits for: ", waits_for_, "\n");
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) options_.log.info("state: ", line);
  }
}

void Lifetime::Core::ask_all() {
  for_each([](Entry& entry) {
    if (entry.ask) entry.ask(entry.heart);
  });
}

// Whether every watched loop is alive.
bool Lifetime::Core::judge_hearts() {
  bool alive = true;
  for_each([&](Entry& entry) {
    if (!entry.watched.empty()) alive = judge(entry) && alive;
  });
  return alive;
}

bool Lifetime::Core::judge(Entry& entry) {
  const auto age = age_of(entry);
  const bool silent = age > options_.silence;
  if (silent && !entry.silent) {
    options_.log.error("loop ", entry.watched, " has shown no life for ", seconds(age),
                       "; the watchdog hears nothing until it does");
  }
  if (!silent && entry.silent) options_.log.warning("loop ", entry.watched, " is alive again");
  entry.silent = silent;
  return !silent;
}

void Lifetime::Core::give_up() {
  gave_up_ = true;
  std::string waits_for;
  {
    const std::lock_guard lock(mutex_);
    waits_for = waits_for_.empty() ? "nothing that it named" : waits_for_;
  }
  const auto allowed = seconds(options_.stop_deadline);
  options_.log.error("the stop took longer than ", allowed, "; it waited for: ", waits_for);
  notify(status_line(cat("gave up to stop; waited for: ", waits_for)));
  options_.exit(1);
}

// --- what others call ---

void Lifetime::Core::request_stop(int signal, std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
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

void Lifetime::Core::ready(std::string_view status, const ReadyAddresses& addresses) {
  int fd = -1;
  {
    const std::lock_guard lock(mutex_);
    ready_ = true;
    status_ = status;
    fd = std::exchange(options_.ready_fd, -1);
  }
  notify("READY=1\n" + status_line(status));
  if (fd < 0) return;
  const Status written = write_line(fd, ready_line(addresses));
  if (!written.ok()) options_.log.warning(written.message());
  ::close(fd);
}

void Lifetime::Core::status(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    status_ = text;
  }
  notify(status_line(text));
}

void Lifetime::Core::stopping(std::string_view waits_for) {
  {
    const std::lock_guard lock(mutex_);
    waits_for_ = waits_for;
  }
  notify(status_line(cat("stopping, waits for: ", waits_for)));
}

uint64_t Lifetime::Core::add(Entry entry) {
  const std::lock_guard lock(mutex_);
  entries_.emplace(++last_id_, std::move(entry));
  return last_id_;
}

uint64_t Lifetime::Core::add_stop(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_requested()) {
      entries_.emplace(++last_id_, Entry{.stop = std::move(call)});
      return last_id_;
    }
  }
  call();
  return 0;
}

uint64_t Lifetime::Core::add_watch(std::string name, std::function<void(LifeSign)> ask) {
  Entry entry{.watched = std::move(name), .ask = std::move(ask)};
  entry.heart.last_ = std::make_shared<std::atomic<Clock::Steady::rep>>();
  entry.heart.clock_ = options_.clock;
  entry.heart.beat();
  return add(std::move(entry));
}

LifeSign Lifetime::Core::heart(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  return entries_.at(id).heart;
}

void Lifetime::Core::remove(uint64_t id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return calling_ != id; });
  entries_.erase(id);
}

void Lifetime::Core::for_each(const std::function<void(Entry&)>& use) {
  std::unique_lock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();
       entry = entries_.upper_bound(calling_)) {
    calling_ = entry->first;
    lock.unlock();
    use(entry->second);  // remove() waits
    lock.lock();
    changed_.notify_all();
  }
  calling_ = 0;
}

// --- the front ---

Registration::Registration(Registration&& other) noexcept
    : lifetime_(std::exchange(other.lifetime_, nullptr)), id_(std::exchange(other.id_, 0)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  release();
  lifetime_ = std::exchange(other.lifetime_, nullptr);
  id_ = std::exchange(other.id_, 0);
  return *this;
}

void Registration::release() {
  if (lifetime_ != nullptr && id_ != 0) lifetime_->core_->remove(id_);
  lifetime_ = nullptr;
  id_ = 0;
}

Lifetime::Lifetime(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Lifetime::~Lifetime() = default;

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
  return {this, core_->add_stop(std::move(call))};
}

void Lifetime::ready(std::string_view status, const ReadyAddresses& addresses) {
  core_->ready(status, addresses);
}
void Lifetime::status(std::string_view text) { core_->status(text); }
void Lifetime::stopping(std::string_view waits_for) { core_->stopping(waits_for); }
void Lifetime::extend_timeout(milliseconds by) {
  core_->notify(cat("EXTEND_TIMEOUT_USEC=", by.count() * 1000));
}

Registration Lifetime::on_reload(std::function<void()> call) {
  return {this, core_->add_reload(std::move(call))};
}
Registration Lifetime::on_dump(std::function<std::string()> call) {
  return {this, core_->add_dump(std::move(call))};
}
Registration Lifetime::watch(std::string name, std::function<void(LifeSign)> ask) {
  return {this, core_->add_watch(std::move(name), std::move(ask))};
}
LifeSign Lifetime::heart(const Registration& watched) const { return core_->heart(watched.id_); }

}  // namespace leat
