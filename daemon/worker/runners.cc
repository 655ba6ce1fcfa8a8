#include "daemon/worker/runners.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "daemon/chaos/commit_chaos.h"
#include "daemon/worker/process_usage.h"
#include "daemon/worker/runner_handle.h"
#include "devices/base/seconds_text.h"
#include "devices/base/text.h"
#include "transport/io/handover.h"

namespace leat {
namespace {

using Steady = std::chrono::steady_clock;

// The use of the processes is measured so often.
constexpr auto kMeasureUsage = std::chrono::milliseconds(500);
// stop_all() waits this long beyond the grace for runners that do not end.
constexpr auto kEndOfAll = std::chrono::seconds(10);
// A runner without a pulse for this time counts as dead, and is killed.
constexpr auto kSilent = std::chrono::milliseconds(2500);
constexpr auto kQuiet = std::chrono::milliseconds(500);  // reported to the master
constexpr uint64_t kLongestFault = 86'400'000;           // milliseconds: a day
// The thread looks at all runners at least this often.
constexpr auto kLongestWait = std::chrono::seconds(1);

}  // namespace

class Runners::Core {
 public:
  Core(RunnerNews news, Logger log, Descriptor wake)
      : news_(std::move(news)), log_(std::move(log)), wake_(std::move(wake)) {
    thread_ = std::thread([this] { run(); });
  }

  ~Core() {
    post([this] { ending_ = true; });
    thread_.join();
  }

  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(work));
    }
    // The eventfd wakes the thread out of poll(). It counts, so no wake is lost before the thread
    // waits.
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof one);
  }

  void start(const RunnerOrder& order, const RunnerSurroundings& surroundings, const Done& done) {
    done(try_start(order, surroundings));
  }

  void advance(const RunnerOrder& order, const Done& done) {
    for (auto& child : children_) {
      RunnerOrder& is = child->order;
      // A runner that is being ended must not look to the master as if it went on.
      if (is.job != order.job || is.assembly > order.assembly || child->killed || child->kill_at)
        continue;
      is.assembly = order.assembly;
      is.task = order.task;
      is.key = order.key;
      {
        const std::lock_guard lock(mutex_);
        Reachable& reachable = doors_.at(child->process->incarnation());
        // From here on a peer must prove the key of the new assembly.
        reachable.order = is;
        reachable.door.assembly = order.assembly;
        reachable.door.key = order.key;
      }
      log_.info("runner of job ", order.job, " goes on in assembly ", order.assembly);
      return done({});
    }
    done(failed_precondition(cat("job ", order.job, " assembly ", order.assembly,
                                 ": expected a runner of an earlier assembly, there is none")));
  }

  void stop(const std::string& job, uint64_t assembly, std::chrono::milliseconds grace, Done done) {
    for (auto& child : children_) {
      // An order that is late must not end a runner that has gone on since.
      if (child->order.job != job || child->order.assembly > assembly) continue;
      // Several orders may wait for the same end; bury() answers all.
      child->waiting.push_back(std::move(done));
      end(*child, grace);
      return;
    }
    done({});
  }

  Result<ProcessView> look(const std::string& job, uint64_t assembly) const {
    for (const auto& child : children_) {
      if (child->order.job != job || child->order.assembly > assembly) continue;
      const auto quiet = Steady::now() - child->heard_at;
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(quiet).count();
      return ProcessView{static_cast<uint32_t>(child->process->pid()), child->process->state(),
                         static_cast<uint64_t>(std::max<int64_t>(0, ms)),
                         child->killed || child->kill_at.has_value()};
    }
    return failed_precondition(cat("job ", job, ": expected a runner here, there is none"));
  }

  void stop_all(std::chrono::milliseconds grace) {
    for (auto& child : children_) end(*child, grace);
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return doors_.size();
  }

  std::vector<RunnerOrder> orders() const {
    const std::lock_guard lock(mutex_);
    std::vector<RunnerOrder> orders;
    for (const auto& [incarnation, reachable] : doors_) orders.push_back(reachable.order);
    return orders;
  }

  std::optional<Door> door(uint64_t incarnation) const {
    const std::lock_guard lock(mutex_);
    const auto found = doors_.find(incarnation);
    if (found == doors_.end()) return std::nullopt;
    return found->second.door;
  }

  // Holds the lock, so that the socket is still this runner's. If the runner does not read, its
  // socket becomes full: then the connection is dropped, and its peer dials again or fails.
  Status give(Connection connection) {
    const uint64_t incarnation = connection.hello.identity.destination_incarnation;
    const std::lock_guard lock(mutex_);
    const auto found = doors_.find(incarnation);
    if (found == doors_.end() || found->second.socket < 0)
      return unavailable("the runner that the connection was for is gone");
    return hand_over(found->second.socket, std::move(connection), Steady::now());
  }

  RunnersPulse pulse() const {
    const std::lock_guard lock(mutex_);
    return counted_.pulse;
  }

  std::vector<RunnerWork> works() const {
    const std::lock_guard lock(mutex_);
    return counted_.works;
  }

  bool wait_until_empty(Steady::time_point deadline) {
    std::unique_lock lock(mutex_);
    return emptied_.wait_until(lock, deadline, [this] { return doors_.empty() && !burying_; });
  }

 private:
  struct Child {
    RunnerOrder order;
    std::unique_ptr<RunnerHandle> process;
    RunnerPulse pulse;
    WorkerUsage usage;
    bool beats = false;           // its first pulse has arrived
    uint64_t faults = 0;          // the number of the last fault that it has asked for
    bool was_refused = false;     // such a fault, which one line of the log tells
    Steady::time_point heard_at;  // the time of the last pulse, or of the start
    std::string killed_for;       // why this worker has killed it, if it was not asked to
    std::optional<Steady::time_point> kill_at;
    bool killed = false;
    std::vector<Done> waiting;
    RunnerEnd end;  // once it has ended
  };
  // The use of this process, and when it and that of the runners were measured.
  struct OwnUsage {
    Steady::time_point at{};
    WorkerUsage usage;
  };
  struct Reachable {
    Door door;
    int socket = -1;
    RunnerOrder order;
  };

  Status try_start(const RunnerOrder& order, const RunnerSurroundings& surroundings) {
    for (const auto& child : children_) {
      // The master may repeat an order, as every call.
      if (child->order.job == order.job && child->order.assembly == order.assembly) return {};
    }
    if (children_.size() >= static_cast<size_t>(surroundings.limits.max_runners)) {
      return resource_exhausted(cat("worker ", surroundings.node, ": expected at most ",
                                    surroundings.limits.max_runners, " runners, has as many"));
    }
    LEAT_ASSIGN_OR_RETURN(auto process, RunnerHandle::start(order, surroundings));
    log_.info("runner of job ", order.job, " assembly ", order.assembly, " started, process ",
              process->pid());
    {
      const std::lock_guard lock(mutex_);
      // The door opens before the master learns that the runner runs, since peers dial it then.
      doors_[process->incarnation()] = {
          {surroundings.cluster_id, order.assembly, order.key}, process->socket(), order};
    }
    auto child = std::make_unique<Child>();
    child->order = order;
    child->process = std::move(process);
    child->heard_at = Steady::now();
    children_.push_back(std::move(child));
    return {};
  }

  // Asks a runner to end. A later call can only shorten its grace.
  void end(Child& child, std::chrono::milliseconds grace) {
    const auto kill_at = Steady::now() + grace;
    if (!child.kill_at) child.process->signal(SIGTERM);
    if (!child.kill_at || kill_at < *child.kill_at) child.kill_at = kill_at;
  }

  void run() {
    pthread_setname_np(pthread_self(), "runners");
    while (true) {
      // Each pass does the orders first, kills the runners whose time is over, and waits for news
      // of the others. At its end it judges those that were silent.
      do_asked();
      if (ending_ && children_.empty()) return;
      // This is repeated in each pass, because an order that was queued may have started another
      // runner.
      if (ending_) stop_all(std::chrono::milliseconds(0));
      kill_late();
      wait();
      for (size_t i = 0; i < children_.size();) {
        if (attend(*children_[i])) {
          ++i;
        } else {
          bury(i);
        }
      }
      kill_silent();
      count();
    }
  }

  // Kills runners without a pulse. A process that is stopped or hangs cannot be distinguished from
  // a dead one. A runner that is only slow to start is left to the master, which has a deadline for
  // it. Times in which this thread itself did not run do not count.
  void kill_silent() {
    const auto now = Steady::now();
    const auto blind = now - std::exchange(looked_at_, now);
    for (auto& child : children_) {
      // This process was stopped or starved; its runners could not be heard.
      if (blind > 2 * kLongestWait) child->heard_at = std::min(now, child->heard_at + blind);
      if (child->killed || now - child->heard_at < kSilent) continue;
      const bool stopped = child->process->is_stopped();
      if (!child->beats && !stopped) continue;
      child->killed_for = cat("gave no sign of life for ", seconds_text(kSilent),
                              stopped ? ", being stopped," : "", " and was killed");
      child->killed = true;
      child->process->signal(SIGKILL);
    }
  }

  void do_asked() {
    std::vector<std::function<void()>> asked;
    {
      const std::lock_guard lock(mutex_);
      // The orders run without the mutex, which they take themselves.
      asked.swap(asked_);
    }
    for (auto& work : asked) work();
  }

  void kill_late() {
    const auto now = Steady::now();
    for (auto& child : children_) {
      if (child->killed || !child->kill_at || *child->kill_at > now) continue;
      child->killed = true;
      child->process->signal(SIGKILL);
    }
  }

  void wait() {
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
    auto until = Steady::now() + kLongestWait;
    for (const auto& child : children_) {
      // Descriptors of -1 are closed ones.
      for (const int fd : {child->process->exit_descriptor(), child->process->output_descriptor(),
                           child->process->socket()}) {
        if (fd >= 0) polled.push_back({fd, POLLIN, 0});
      }
      if (!child->killed && child->kill_at) until = std::min(until, *child->kill_at);
      // The thread wakes when a runner becomes quiet or silent, unless it has looked since.
      for (const auto silent_at : {child->heard_at + kQuiet, child->heard_at + kSilent}) {
        if (!child->killed && silent_at > looked_at_) until = std::min(until, silent_at);
      }
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now());
    poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
    uint64_t drained;
    [[maybe_unused]] const ssize_t n = read(wake_.get(), &drained, sizeof drained);
  }

  // Handles the output and pulses of a runner. Returns false if the runner has ended.
  bool attend(Child& child) {
    tell(child);
    if (const auto pulse = child.process->next_pulse()) {
      child.pulse = *pulse;
      child.usage.host = pulse->host;
      child.usage.accelerators = pulse->accelerators;
      child.beats = true;
      child.heard_at = Steady::now();
      strike(child, pulse->fault);
    }
    // A runner that has closed its socket takes no more peers.
    if (child.process->socket() < 0) close_door(child);
    auto end = child.process->reap();
    if (!end) return true;
    // "was killed by signal 9" would not say that this worker did it, and why.
    if (!child.killed_for.empty()) end = RunnerEnd{child.killed_for};
    // The output before its death is still in the pipe. A grandchild may hold the pipe open, so do
    // not wait for its end.
    for (int i = 0; i < 16 && child.process->output_descriptor() >= 0; ++i) {
      if (!tell(child)) break;
    }
    log_.info("runner of job ", child.order.job, " assembly ", child.order.assembly, " ", end->how);
    child.end = std::move(*end);
    return false;
  }

  // Commits a fault that the runner asks for, if the master lets its job have any.
  void strike(Child& child, const AskedFault& asked) {
    if (asked.number == child.faults) return;
    child.faults = asked.number;
    const bool is_action = asked.action <= static_cast<uint64_t>(ChaosAction::stop);
    if (!child.order.chaos || !is_action) {
      if (std::exchange(child.was_refused, true)) return;
      return log_.warning("runner of job ", child.order.job,
                          ": asks for a fault, which its job may not have");
    }
    ChaosFault fault;
    fault.action = static_cast<ChaosAction>(asked.action);
    fault.lasts = std::chrono::milliseconds(std::min<uint64_t>(asked.lasts_ms, kLongestFault));
    // This process comes last, since the fault may end it. SIGTERM asks a worker to end in order;
    // its runner then gets no signal.
    const pid_t both[] = {child.process->pid(), ::getpid()};
    const std::span<const pid_t> all(both);
    if (asked.is_of_worker == 0) return commit_chaos(fault, all.first(1));
    commit_chaos(fault, fault.action == ChaosAction::term ? all.last(1) : all);
  }

  bool tell(Child& child) {
    auto lines = child.process->read_output();
    if (lines.empty()) return false;
    news_.wrote(child.order.job, child.order.assembly, std::move(lines));
    return true;
  }

  void close_door(Child& child) {
    const std::lock_guard lock(mutex_);
    const auto found = doors_.find(child.process->incarnation());
    if (found != doors_.end()) found->second.socket = -1;
  }

  // Removes a runner that has ended, and reports its end.
  void bury(size_t i) {
    const std::unique_ptr<Child> child = std::move(children_[i]);
    children_.erase(children_.begin() + static_cast<ptrdiff_t>(i));
    {
      const std::lock_guard lock(mutex_);
      // From here on no list of runners has it, so the report of its end is the last of it.
      doors_.erase(child->process->incarnation());
      burying_ = true;
      ended_.progress += child->pulse.turns;
      ended_.traffic += child->pulse.traffic;
      ended_.usage.cpu_ms += child->usage.cpu_ms;
    }
    const RunnerEnd end = std::move(child->end);
    child->process.reset();  // removes its directory before its end is reported
    news_.exited(child->order.job, child->order.assembly, end);
    for (const Done& done : child->waiting) done({});
    {
      const std::lock_guard lock(mutex_);
      burying_ = false;
    }
    emptied_.notify_all();
  }

  // Asks the system for the use of this process and of all runners, twice a second.
  void measure_usage() {
    const auto now = Steady::now();
    if (now - own_.at < kMeasureUsage) return;
    own_ = {now, usage_of(::getpid())};
    for (auto& child : children_) {
      const WorkerUsage usage = usage_of(child->process->pid());
      // A runner that has just ended has no numbers any more; its time stays that of the last look.
      child->usage.cpu_ms = std::max(child->usage.cpu_ms, usage.cpu_ms);
      child->usage.resident_bytes = usage.resident_bytes;
    }
  }

  // Computes the progress of all runners, and of each.
  void count() {
    measure_usage();
    const std::lock_guard lock(mutex_);
    counted_.pulse = ended_;
    counted_.pulse.waits = true;
    counted_.pulse.usage += own_.usage;
    counted_.works.clear();
    for (const auto& child : children_) {
      const RunnerActivity activity = child->pulse.activity;
      counted_.pulse.progress += child->pulse.turns;
      counted_.pulse.work += child->pulse.tiles;
      counted_.pulse.traffic += child->pulse.traffic;
      counted_.pulse.usage += child->usage;
      counted_.works.push_back(
          {child->order.job, child->pulse.turns, child->pulse.traffic, child->usage});
      counted_.pulse.stepping = counted_.pulse.stepping || activity != RunnerActivity::idle;
      counted_.pulse.waits = counted_.pulse.waits && activity != RunnerActivity::computing;
      counted_.pulse.quiet =
          counted_.pulse.quiet || (child->beats && looked_at_ - child->heard_at >= kQuiet);
    }
    counted_.pulse.waits = counted_.pulse.waits && counted_.pulse.stepping;
  }

  const RunnerNews news_;
  const Logger log_;
  const Descriptor wake_;

  // The members below belong to the thread "runners".
  std::vector<std::unique_ptr<Child>> children_;
  bool ending_ = false;
  Steady::time_point looked_at_ = Steady::now();  // the last check for silent runners
  OwnUsage own_;

  mutable std::mutex mutex_;
  std::condition_variable emptied_;
  std::vector<std::function<void()>> asked_;
  std::map<uint64_t, Reachable> doors_;  // by incarnation
  bool burying_ = false;  // a runner is out of doors_, and its end is not reported yet
  struct {
    RunnersPulse pulse;  // of all runners
    std::vector<RunnerWork> works;
  } counted_;           // at the last look
  RunnersPulse ended_;  // the progress and traffic of ended runners, so that the sums never fall
  std::thread thread_;
};

Result<std::unique_ptr<Runners>> Runners::create(RunnerNews news, Logger log) {
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return system_error("runners", errno);
  return std::unique_ptr<Runners>(
      new Runners(std::make_unique<Core>(std::move(news), std::move(log), std::move(wake))));
}

Runners::Runners(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Runners::~Runners() = default;

void Runners::start(RunnerOrder order, RunnerSurroundings surroundings, Done done) {
  core_->post([core = core_.get(), order = std::move(order), surroundings = std::move(surroundings),
               done = std::move(done)] { core->start(order, surroundings, done); });
}

void Runners::advance(RunnerOrder order, Done done) {
  core_->post([core = core_.get(), order = std::move(order), done = std::move(done)] {
    core->advance(order, done);
  });
}

void Runners::stop(const std::string& job, uint64_t assembly, std::chrono::milliseconds grace,
                   Done done) {
  core_->post([core = core_.get(), job, assembly, grace, done = std::move(done)]() mutable {
    core->stop(job, assembly, grace, std::move(done));
  });
}

void Runners::look(const std::string& job, uint64_t assembly,
                   std::function<void(Result<ProcessView>)> done) {
  core_->post([core = core_.get(), job, assembly, done = std::move(done)] {
    done(core->look(job, assembly));
  });
}

void Runners::stop_all(std::chrono::milliseconds grace) {
  core_->post([core = core_.get(), grace] { core->stop_all(grace); });
  // A runner in an uninterruptible call does not end even by SIGKILL, so the wait has a bound.
  (void)core_->wait_until_empty(Steady::now() + grace + kEndOfAll);
}

bool Runners::wait_until_none(Steady::time_point deadline) {
  return core_->wait_until_empty(deadline);
}

size_t Runners::size() const { return core_->size(); }
std::vector<RunnerOrder> Runners::orders() const { return core_->orders(); }
std::optional<Runners::Door> Runners::door(uint64_t incarnation) const {
  return core_->door(incarnation);
}
Status Runners::give(Connection connection) { return core_->give(std::move(connection)); }
RunnersPulse Runners::pulse() const { return core_->pulse(); }
std::vector<RunnerWork> Runners::works() const { return core_->works(); }

}  // namespace leat
