#include "daemon/chaos/fault_injector.h"

#include <pthread.h>

#include <algorithm>
#include <limits>

namespace leat {
namespace {

// The longest time until the thread notices new faults, or one that is due by its time.
constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::milliseconds kAgain{100};
constexpr uint64_t kNoGate = std::numeric_limits<uint64_t>::max();

}  // namespace

FaultInjector::FaultInjector(Announce announce, Commit commit, Logger log,
                             std::chrono::milliseconds patience)
    : announce_(std::move(announce)),
      commit_(std::move(commit)),
      log_(std::move(log)),
      patience_(patience) {}

void FaultInjector::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void FaultInjector::arm(std::vector<ArmedFault> faults, std::chrono::milliseconds ran) {
  const std::lock_guard lock(mutex_);
  ++armed_;
  const auto is_asked = [&](const ArmedFault& each) {
    return asked_ && each.index == asked_->fault.index;
  };
  if (asked_ && std::none_of(faults.begin(), faults.end(), is_asked))
    faults.push_back(asked_->fault);  // the master may have written it, and it has not happened
  std::erase_if(faults, [&](const ArmedFault& each) { return came_.contains(each.index); });
  // The first of them with a step is then the one that the gate waits for.
  std::stable_sort(faults.begin(), faults.end(), [](const ArmedFault& a, const ArmedFault& b) {
    return a.fault.step < b.fault.step;
  });
  faults_ = std::move(faults);
  // Faults with a time count from the job's first run, not from this runner's start.
  job_began_ = Steady::now() - ran;
  move_gate();
  if (!faults_.empty() && !thread_.joinable()) thread_ = std::thread([this] { live(); });
  changed_.notify_all();
}

void FaultInjector::watch(std::weak_ptr<GatedRun> run) {
  const std::lock_guard lock(mutex_);
  run_ = std::move(run);
  move_gate();
  changed_.notify_all();
}

const ArmedFault* FaultInjector::next_by_step() const {
  const auto found = std::find_if(faults_.begin(), faults_.end(), [](const ArmedFault& each) {
    return each.fault.step > 0 && !each.due;
  });
  return found == faults_.end() ? nullptr : &*found;
}

void FaultInjector::move_gate() {
  // The run may do the steps before the next fault, and none after it.
  const ArmedFault* next = next_by_step();
  if (const auto run = run_.lock()) run->set_gate(next == nullptr ? kNoGate : next->fault.step);
}

// Finds a fault that the master has declared due, or whose time has come.
bool FaultInjector::take_due(ArmedFault& due) const {
  for (const ArmedFault& each : faults_) {
    const bool by_time = each.fault.step == 0 && Steady::now() >= job_began_ + each.fault.time;
    if (!each.due && !by_time) continue;
    due = each;
    return true;
  }
  return false;
}

bool FaultInjector::await_next(std::unique_lock<std::mutex>& lock, ArmedFault& due) {
  const ArmedFault* const next = next_by_step();
  // The pointer must not keep the run alive longer than the wait: its owner may want to end it.
  const std::weak_ptr<GatedRun> watched = run_;
  std::shared_ptr<GatedRun> run = next == nullptr ? nullptr : watched.lock();
  if (run == nullptr) {
    changed_.wait_for(lock, kLook);
    return false;
  }
  due = *next;
  lock.unlock();
  const Status reached = run->await_step(due.fault.step, Steady::now() + kLook);
  run.reset();  // may destroy the run
  lock.lock();
  const bool ended = !reached.ok() && reached.code() != Code::deadline_exceeded;
  // watch() may have set another run while the lock was free; that one stays.
  const bool watches_it = !watched.owner_before(run_) && !run_.owner_before(watched);
  if (ended && watches_it) run_.reset();
  return reached.ok();
}

void FaultInjector::live() {
  ::pthread_setname_np(::pthread_self(), "chaos");
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    ArmedFault due;
    // A fault that is due waits until there is a run.
    const bool is_due = (!run_.expired() && take_due(due)) || await_next(lock, due);
    // arm() may have replaced the faults while the lock was free.
    const auto still = std::find_if(faults_.begin(), faults_.end(),
                                    [&](const auto& each) { return each.index == due.index; });
    if (!is_due || stopped_ || still == faults_.end()) continue;
    strike(lock, due);
  }
}

void FaultInjector::strike(std::unique_lock<std::mutex>& lock, const ArmedFault& due) {
  const uint64_t armed = armed_;
  // The patience counts from the first time that this fault was announced.
  if (!asked_ || asked_->fault.index != due.index) asked_ = Asked{due, Steady::now()};
  const bool again = ++asked_->times > 1;
  lock.unlock();
  const Status announced = announce_(due);
  lock.lock();
  if (asks_again(announced)) {
    changed_.wait_for(lock, kAgain, [this] { return stopped_; });
    return;
  }
  asked_.reset();
  // If the first answer got lost, the master's refusal of the second request shows that it has
  // written the fault.
  const bool comes =
      announced.ok() || (again && announced.message().find(kFaultCameBefore) != std::string::npos);
  lock.unlock();
  if (comes) {
    log_.warning("chaos: ", to_string(due.fault));
    commit_(due.fault);
  } else {
    log_.warning("chaos: ", to_string(due.fault), " is left out: ", announced.message());
  }
  lock.lock();
  // A fault that kills this process never comes here; the master's journal keeps it from coming
  // again.
  if (comes) came_.insert(due.index);
  if (!comes && armed != armed_) return;  // the new faults may contain it again
  std::erase_if(faults_, [&](const ArmedFault& each) { return each.index == due.index; });
  move_gate();
}

bool FaultInjector::asks_again(const Status& announced) const {
  const bool away = announced.code() == Code::unavailable ||
                    announced.code() == Code::deadline_exceeded ||
                    announced.code() == Code::resource_exhausted;  // no room in the journal
  return away && Steady::now() - asked_->since < patience_;
}

}  // namespace leat
