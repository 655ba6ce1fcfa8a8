#include "daemon/jobs/assembly_run.h"

#include <algorithm>

#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {

void AssemblyRun::renew(const std::vector<WorkerRef>& joining) {
  // A worker that joins may have the name of one that held the state, but its new runner holds
  // nothing.
  for (const WorkerRef& worker : joining) newest_.holders.erase(worker.name);
  progress_.restart();
  returned_.clear();
  grows_by_ = 0;
  // The assembly is not idle: a session whose runners fail while they start must end.
  work_ = {};
  spared_from_ = 0;
  missing_.clear();
}

void AssemblyRun::begin() {
  runs_ = true;
  work_.idle = false;
  ran_at_ = context_.now.steady;
}

void AssemblyRun::end(const std::string& reason) {
  yield_.reset();
  waits_for_.clear();
  // So that there is one EndRun for each RunJob.
  if (!std::exchange(runs_, false)) return;
  context_.actions.push_back(EndRun{job_.id, assembly_.assembly(), reason});
}

void AssemblyRun::made_progress(const ProgressReport& report) {
  progress_.report(report, context_.now.steady);
  spared_from_ = report.spared_from;
  work_.idle = report.idle;
  newest_.in_parts = report.in_parts;
  const bool steps = report.step > report.first_step;
  // After the first step each runner has the newest state, and the checkpoint that they began with
  // is no longer the newest one.
  if (steps && !work_.stepped) hold(false);
  work_.stepped = work_.stepped || steps;
}

void AssemblyRun::hold(bool saved) {
  newest_.holders.clear();
  for (const WorkerRef& worker : assembly_.workers()) newest_.holders.insert(worker.name);
  newest_.saved = saved;
}

RunYield AssemblyRun::yielded(bool saved) {
  // A run that stops without a request has no better reason.
  RunYield why = yield_.value_or(RunYield{.cause = "it came to a fence"});
  // The assembly really ends because of the worker that it lost; the history names that one.
  if (!missing_.empty() && why.culprit.empty()) {
    why.culprit = missing_.front().worker;
    why.cause = cat(missing_.front().text, "; ", why.cause);
  }
  hold(saved);
  return why;
}

bool AssemblyRun::releases(const WorkerRef& worker) const {
  const Leases& leases = context_.leases;
  if (!leases.has(worker)) return false;
  if (newest_.saved && returned_.contains(worker.name)) return true;
  if (!leases.is_draining(worker.name)) return false;
  // With a checkpoint no worker's memory is needed. Without one, another worker that stays must
  // hold the whole state, which none does when each holds a part.
  if (newest_.saved || !newest_.holders.contains(worker.name)) return true;
  if (newest_.in_parts) return false;
  const std::vector<WorkerRef> workers = assembly_.workers();
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerRef& other) {
    return assembly_.will_be_kept(other) && newest_.holders.contains(other.name) &&
           !leases.is_draining(other.name);
  });
}

// A job that may not restart keeps its draining workers until it ends.
std::optional<RunYield> AssemblyRun::leave_drained() {
  if (assembly_.mode() != Assembly::Mode::going || !may_move()) return std::nullopt;
  const Leases& leases = context_.leases;
  std::vector<std::string> leaving;
  const std::vector<WorkerRef> workers = assembly_.workers();
  for (const WorkerRef& worker : workers) {
    if (leases.has(worker) && leases.is_draining(worker.name)) leaving.push_back(worker.name);
  }
  if (leaving.empty()) return std::nullopt;
  // A worker that alone holds the job in memory takes part in the assembly, and leaves at its
  // fence.
  const bool waits = !runs_ && std::none_of(workers.begin(), workers.end(),
                                            [this](const auto& each) { return releases(each); });
  if (waits) return std::nullopt;
  RunYield why;
  why.cause = leaving.size() == 1 ? cat("worker '", leaving.front(), "' is draining")
                                  : cat("workers '", join(leaving, "', '"), "' are draining");
  why.culprit = leaving.front();
  if (!runs_) return why;
  // The workers that stay keep the job in memory, unless they have to wait for others.
  const size_t stay = workers.size() - leaving.size();
  const size_t others = demand_.free_but(demand_.left_out(true));
  why.saves = stay == 0 || stay + others < demand_.least();
  ask_to_yield(std::move(why));
  return std::nullopt;
}

void AssemblyRun::ask_to_yield(RunYield why) {
  const bool saves = why.saves;
  // A second request is sent only to add a checkpoint to the first. The reason of a drain stays,
  // because the history names its worker, unless the job leaves all workers; the reason to grow
  // gives way.
  const bool is_news = !yield_ || (saves && !yield_->saves);
  const bool for_a_drain = yield_ && !yield_->culprit.empty();
  const bool leaves = yield_ && yield_->then > why.then;
  if (!leaves && (!for_a_drain || why.then != RunYield::Then::moves)) {
    why.saves = yield_ && yield_->saves;
    yield_ = std::move(why);
  }
  if (!is_news) return;
  yield_->saves = saves;
  context_.actions.push_back(YieldRun{job_.id, assembly_.assembly(), saves, yield_->cause});
}

bool AssemblyRun::goes_on_without(const WorkerRef& worker, std::string text) {
  if (!runs_ || assembly_.mode() != Assembly::Mode::going) return false;
  if (spared_from_ == 0 || !may_move() || !assembly_.has_place(worker)) return false;
  const std::vector<WorkerRef> workers = assembly_.workers();
  const auto at = std::find(workers.begin(), workers.end(), worker);
  // The tasks from spared_from_ on are those of the backup workers.
  if (at - workers.begin() < static_cast<ptrdiff_t>(spared_from_)) return false;
  missing_.push_back({worker.name, std::move(text)});
  return true;
}

bool AssemblyRun::may_grow() const {
  if (!may_move() || !work_.stepped || !runs_ || yield_) return false;
  // Every growth costs a new assembly, so they have a distance in time.
  if (context_.now.steady < ran_at_ + context_.limits.grow_after) return false;
  return !missing_.empty() || has_places();
}

size_t AssemblyRun::grow(size_t free) {
  const size_t had = assembly_.size() - missing_.size();
  // All that the run lacks come at once, unless the job is elastic.
  const bool replaces = !missing_.empty() && had + free >= demand_.least();
  const size_t gets = std::min(free, job_.num_workers - had);
  if ((!replaces && !has_places()) || gets == 0) return 0;
  grows_by_ = gets;
  ask_to_yield({.cause = cat("takes in ", counted(gets, "worker"), ": it had ", had, " of ",
                             job_.num_workers),
                .saves = replaces});
  return gets;
}

void AssemblyRun::give_back(size_t count, const std::vector<std::string>& workers,
                            std::string cause) {
  if (!may_move() || !runs_ || yield_) return;
  // From the last task on, so that the others keep theirs.
  for (auto each = workers.rbegin(); each != workers.rend() && count > 0; ++each, --count)
    returned_.insert(*each);
  if (returned_.empty()) return;
  // With a checkpoint, no worker's memory is needed.
  ask_to_yield({.cause = std::move(cause), .saves = true});
}

bool AssemblyRun::has_places() const {
  if (job_.min_workers == 0 || assembly_.size() >= job_.num_workers) return false;
  if (demand_.leaves_out_now()) return false;           // a free worker may be one of those
  const double eta = progress_.progress().eta_seconds;  // no number where steps are slow
  // The negation lets a NaN count as a long time.
  return !(eta < std::chrono::duration<double>(context_.limits.grow_after).count());
}

}  // namespace leat
