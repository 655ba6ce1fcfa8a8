#include "daemon/master/master_faults.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "daemon/chaos/commit_chaos.h"
#include "daemon/master/job_logs.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using SteadyClock = std::chrono::steady_clock;

}  // namespace

// Those that are due. Threads: any; it outlives the run.
struct MasterFaults::Queue {
  JobLogs& logs;
  const std::function<void(FaultAsked, std::function<void(Status)>)> fault_due;
  const std::string job;
  const uint64_t assembly;
  std::mutex mutex = {};
  std::deque<Armed> due = {};
  bool busy = false;  // with one that was taken out
};

MasterFaults::MasterFaults(const RunningJobsParts& parts, const RunJob& action,
                           const std::vector<ArmedFault>& faults, bool apart)
    : parts_(parts),
      action_(action),
      // The time of a fault counts from the moment when the job first ran, also in later
      // assemblies.
      job_began_(SteadyClock::now() - action.ran),
      queue_(new Queue{parts.logs, parts.fault_due, action.job, action.assembly}) {
  for (const ArmedFault& each : faults) {
    // There are three kinds: the master's own faults; those of runners, which know when they are
    // due; and those of runners that step apart, for which the master counts the steps of the job.
    if (each.fault.target == ChaosTarget::master) {
      faults_.push_back({each, std::make_shared<std::atomic<bool>>(false)});
    } else {
      (apart && each.fault.step > 0 ? by_step_ : of_runners_).push_back(each);
    }
  }
  // Faults of the same step stay in the order of the schedule.
  std::stable_sort(by_step_.begin(), by_step_.end(), [](const ArmedFault& a, const ArmedFault& b) {
    return a.fault.step < b.fault.step;
  });
}

// A runner that cannot be told is lost: its faults are told again in the next assembly.
void MasterFaults::tell_runners(uint64_t step) {
  if (by_step_.empty() || step < by_step_.front().fault.step) return;
  // The runners get the whole list each time, with the new ones marked as due.
  while (!by_step_.empty() && step >= by_step_.front().fault.step) {
    of_runners_.push_back(std::move(by_step_.front()));
    of_runners_.back().due = true;
    by_step_.erase(by_step_.begin());
  }
  RunJob now = action_;
  now.ran = std::chrono::floor<std::chrono::milliseconds>(SteadyClock::now() - job_began_);
  const Status told = parts_.arm(now, of_runners_);
  if (!told.ok()) parts_.logs.add(action_.job, "master", {cat("warning: chaos: ", told.message())});
}

void MasterFaults::on_step(uint64_t step) {
  tell_runners(step);
  if (faults_.empty()) return;
  const auto now = SteadyClock::now();
  for (const Armed& each : faults_) {
    const ChaosFault& fault = each.fault.fault;
    if (fault.step > 0 ? step < fault.step : now < job_began_ + fault.time) continue;
    // Each fault is asked for once, unless the journal had no room for it.
    if (each.asked->exchange(true)) continue;
    std::unique_lock lock(queue_->mutex);
    queue_->due.push_back(each);
    // One fault is asked for at a time; the one in hand asks for the next when it is over.
    if (std::exchange(queue_->busy, true)) continue;
    lock.unlock();
    ask_next(queue_);
  }
}

// Takes the next fault from the queue, asks the journal for it, and injects it when the job's log
// has it, too. The thread that trains calls it first, then each answer does, on its own thread.
void MasterFaults::ask_next(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  queue->busy = !queue->due.empty();
  if (!queue->busy) return;
  const Armed next = queue->due.front();
  queue->due.pop_front();
  lock.unlock();
  const std::string text = to_string(next.fault.fault);
  queue->fault_due({0, queue->job, queue->assembly, next.fault.index, text},
                   [queue, next, text](const Status& status) {
                     // The disk is full: the next step asks again. With any other error the fault
                     // does not happen.
                     if (status.code() == Code::resource_exhausted) next.asked->store(false);
                     if (!status.ok()) return ask_next(queue);
                     queue->logs.add(queue->job, "master", {cat("chaos: ", text)}, [queue, next] {
                       // A fault that ends this process does not return from here.
                       const pid_t self = ::getpid();
                       commit_chaos(next.fault.fault, {&self, 1});
                       ask_next(queue);
                     });
                   });
}

}  // namespace leat
