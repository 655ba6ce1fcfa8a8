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
  move_gates();
  if (!faults_.empty() && !thread_.joinable()) thread_ = std::thread([this] { live(); });
  changed_.notify_all();
}

void FaultInjector::watch(const std::shared_ptr<GatedRun>& run) {
  const std::lock_guard lock(mutex_);
  if (run->number() != number_) runs_.clear();
  number_ = run->number();
  runs_.push_back(run);
  move_gates();
  changed_.notify_all();
}

const ArmedFault* FaultInjector::next_by_step() const {
  const auto found = std::find_if(faults_.begin(), faults_.end(), [](const ArmedFault& each) {
    return each.fault.step > 0 && !each.due;
  });
  return found == faults_.end() ? nullptr : &*found;
}

void FaultInjector::move_gates() {
  // The run may do the steps before the next fault, and none after it.
  const ArmedFault* next = next_by_step();
  for (const auto& watched : runs_) {
    if (const auto run = watched.lock())
      run->set_gate(next == nullptr ? kNoGate : next->fault.step);
  }
}

bool FaultInjector::has_runs() {
  std::erase_if(runs_, [](const auto& each) { return each.expired(); });
  return !runs_.empty();
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
  if (next == nullptr || !has_runs()) {
    changed_.wait_for(lock, kLook);
    return false;
  }
  due = *next;
  const std::vector<std::weak_ptr<GatedRun>> watched = runs_;
  std::vector<std::weak_ptr<GatedRun>> ended;
  const auto deadline = Steady::now() + kLook;
  bool reached = false, is_behind = false;
  lock.unlock();
  for (const auto& each : watched) {
    // The pointer must not keep the run alive longer than the wait: its owner may want to end it.
    const auto run = each.lock();
    if (!run) continue;
    const Status status = run->await_step(due.fault.step, deadline);
    if (status.ok())
      reached = true;
    else if (status.code() == Code::deadline_exceeded)
      is_behind = true;
    else
      ended.push_back(each);
  }
  lock.lock();
  std::erase_if(runs_, [&](const auto& each) {
    return std::any_of(ended.begin(), ended.end(), [&](const auto& one) {
      return !one.owner_before(each) && !each.owner_before(one);
    });
  });
  return reached && !is_behind;
}

void FaultInjector::live() {
  ::pthread_setname_np(::pthread_self(), "chaos");
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    ArmedFault due;
    // A fault that is due waits until there is a run.
    const bool is_due = (has_runs() && take_due(due)) || await_next(lock, due);
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
  move_gates();
}

bool FaultInjector::asks_again(const Status& announced) const {
  const bool away = announced.code() == Code::unavailable ||
                    announced.code() == Code::deadline_exceeded ||
                    announced.code() == Code::resource_exhausted;  // no room in the journal
  return away && Steady::now() - asked_->since < patience_;
}

}  // namespace leat
