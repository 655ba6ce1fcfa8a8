#include "daemon/jobs/job_past.h"

#include <algorithm>
#include <utility>

namespace leat {
namespace {

// The fault that is taken for the cause of the assembly's end: the last one that fired in it. One
// that only slows a process down ends no assembly, unless no other fired. Null if none did.
const FiredFault* cause_among(const std::vector<FiredFault>& fired, uint64_t assembly) {
  const FiredFault* cause = nullptr;
  for (const FiredFault& each : fired) {
    if (each.assembly != assembly) continue;
    if (cause == nullptr || !each.fault.starts_with("slow=") || cause->fault.starts_with("slow="))
      cause = &each;
  }
  return cause;
}

}  // namespace

void JobPast::lost(std::string cause, JobFailure* failure, uint64_t step) {
  const uint64_t assembly = job_.condition.assembly;
  // A decision that could not be written is made again, so the same loss may come twice.
  for (const auto* known : {&lost_, &job_.history.last}) {
    for (const LostAssembly& each : *known) {
      if (each.assembly == assembly) return;
    }
  }
  LostAssembly lost;
  lost.number = job_.history.count + 1;
  lost.assembly = assembly;
  // A run's error may hold the errors of many peers; the journal keeps the start of it.
  if (cause.size() > JobHistory::kMaxCause) cause.resize(JobHistory::kMaxCause);
  lost.cause = std::move(cause);
  lost.began_ms = began_ms_;
  lost.failed_ms = context_.now.wall_ms;
  // Without a failure, as after a restart of the master, the master knows neither the culprit nor
  // the step, and these fields stay as they are.
  if (failure != nullptr) {
    lost.culprit = failure->culprit;
    lost.failed_ms = failure->at_ms;
    lost.detected_after = failure->detected_after;
    lost.stopped_at = static_cast<int64_t>(std::max(step, failure->step));
  }
  if (const FiredFault* fired = cause_among(job_.fired, assembly)) {
    lost.fault = fired->fault;
    if (failure != nullptr) failure->crash = false;  // the fault was asked for
    // The journal's time is from before the write; fault_came_ms_ is from when the runner was
    // allowed to do it. After a restart of the master only the first is known.
    const int64_t came_ms = std::max(fired->at_ms, fault_came_ms_);
    lost.detected_after = std::max<int64_t>(0, lost.failed_ms - came_ms);
  }
  lost_.push_back(std::move(lost));
}

// ClusterJob calls this with each report of progress, so the usual case, without an open loss, must
// be cheap.
bool JobPast::goes_on(const ProgressReport& report, uint64_t assembly) {
  // An assembly has recovered when it has done a step of its own, and not when it has loaded.
  if (report.step <= report.first_step) return false;
  if (!lost_.empty() || !next_lost_.empty()) return false;  // it is being written
  for (const LostAssembly& each : job_.history.last) {
    // Several assemblies may have been lost before one did a step. Each of them recovers now.
    if (each.recovered_after >= 0 || each.assembly >= assembly) continue;
    LostAssembly lost = each;
    lost.recovered_after = std::max<int64_t>(0, context_.now.wall_ms - lost.failed_ms);
    lost.went_on_from = static_cast<int64_t>(report.first_step);
    lost.source = report.from;
    lost_.push_back(std::move(lost));
  }
  return !lost_.empty();
}

// A fault fires once in the life of a job. It counts as known from the moment it is asked for, so a
// second request while the write is in flight is refused as well.
bool JobPast::ask(FaultAsked fault) {
  const auto is_known = [&](const auto& faults) {
    return std::any_of(faults.begin(), faults.end(),
                       [&](const auto& each) { return each.index == fault.index; });
  };
  if (is_known(job_.fired) || is_known(next_fired_) || is_known(asked_)) return false;
  asked_.push_back(std::move(fault));
  return true;
}

const std::vector<LostAssembly>& JobPast::write_lost() {
  // If the write fails, written() puts these entries back, in front of newer ones.
  return next_lost_ = std::exchange(lost_, {});
}

const std::vector<FiredFault>& JobPast::write_faults() {
  // A fault whose write fails is not asked again here: its ticket gets the error.
  for (const FaultAsked& each : std::exchange(asked_, {})) {
    next_fired_.push_back({each.index, each.fault, each.assembly, context_.now.wall_ms});
    tickets_.push_back(each.ticket);
  }
  return next_fired_;
}

std::vector<uint64_t> JobPast::written(bool ok) {
  std::vector<LostAssembly> lost = std::exchange(next_lost_, {});
  std::vector<FiredFault> fired = std::exchange(next_fired_, {});
  if (ok) {
    for (const LostAssembly& each : lost) job_.history.put(each);
    for (FiredFault& each : fired) job_.fired.push_back(std::move(each));
    if (!fired.empty()) fault_came_ms_ = context_.now.wall_ms;  // its runner hears now that it may
  } else {
    lost_.insert(lost_.begin(), lost.begin(), lost.end());
  }
  return std::exchange(tickets_, {});
}

}  // namespace leat
