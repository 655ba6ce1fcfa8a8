#include "daemon/jobs/job_runners.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {

// Called after every change of the runners. The table ticks only the jobs in `assembled`, so a job
// that is missing there would never reach a deadline.
void JobRunners::file() {
  if (assembly_.all_gone() && !take_up_until_) {
    context_.assembled.erase(job_.number);
  } else {
    context_.assembled.insert(job_.number);
  }
}

// After a restart of the master
// ---------------------------------------------------------------------

void JobRunners::restore() {
  assembly_.take_up(job_.condition.assembly, job_.condition.workers);
  // The runners had the newest state when the master went away.
  run_.hold(false);
  parted_at_ = context_.now.steady;
  take_up_until_ = context_.now.steady + context_.limits.take_up;
  file();
}

bool JobRunners::awaits_workers() const {
  if (!take_up_until_) return false;
  // A worker that has registered again without its runner does not bring it any more.
  const auto names = assembly_.vacant();
  return std::any_of(names.begin(), names.end(), [this](const std::string& name) {
    return context_.leases.incarnation_of(name) == nullptr;
  });
}

bool JobRunners::take_up(const WorkerRef& worker, const HeldRunner& runner) {
  if (assembly_.assembly() != runner.assembly || runner.assembly == 0) return false;
  if (!take_up_until_ || assembly_.mode() != Assembly::Mode::parted) return false;
  // The worker has another job by now; the caller stops the runner.
  if (!context_.leases.claim(worker, job_.number, demand_.share())) return false;
  if (!assembly_.await(worker, runner.task, *take_up_until_)) {
    context_.leases.release(worker, job_.number);
    return false;
  }
  file();
  return true;
}

void JobRunners::expel(const WorkerRef& worker, uint64_t assembly) {
  // The lease keeps other jobs away from the worker until the stray runner is gone.
  if (!context_.leases.claim(worker, job_.number, demand_.share())) return;
  const auto& limits = context_.limits;
  assembly_.expel(worker, assembly, context_.now.steady + limits.stop_grace + limits.stop_timeout);
  file();
}

// Assemblies
// ----------------------------------------------------------------------------------------

bool JobRunners::renew(size_t extra, const std::vector<std::string>& avoid) {
  const size_t wants = demand_.wanted(), kept = assembly_.kept();
  // At first all workers that were left out are passed over. If too few are free then, those come
  // back whose time is over.
  const auto passed_over = [&](bool all) {
    auto names = demand_.left_out(some_kept(), all);
    names.insert(names.end(), avoid.begin(), avoid.end());
    return names;
  };
  auto left_out = passed_over(true);
  if (wants > demand_.free_but(left_out)) left_out = passed_over(false);
  if (wants > demand_.free_but(left_out)) return false;
  // An elastic job takes free workers up to its maximum, but leaves others what they wait for.
  const size_t most = std::min(job_.num_workers - kept, wants + extra);
  const size_t gets = std::min(most, demand_.free_but(left_out));
  // Each worker gets the task that it had.
  const auto before = kept > 0 ? assembly_.vacant() : job_.condition.workers;
  const auto joining = context_.leases.take(gets, job_.number, before, left_out, demand_.share());
  assembly_.renew(job_.condition.assembly + 1, joining, kept + gets);
  take_up_until_.reset();
  run_.renew(joining);
  file();
  return true;
}

// No runner was asked yet, so there is nothing to tell, and only leases to give back.
void JobRunners::undo() { leave({{}, assembly_.undo(job_.condition.assembly)}, {}, ""); }

void JobRunners::ask() {
  StartRunners start{job_.id, assembly_.assembly(), {}, {}, job_.gpus, demand_.share()};
  const auto deadline = context_.now.steady + context_.limits.start_timeout;
  // By task: the index in the action is the task.
  for (const auto& [worker, kept] : assembly_.ask(deadline)) {
    start.workers.push_back(worker);
    start.kept.push_back(kept);
  }
  context_.actions.push_back(std::move(start));
}

void JobRunners::left(const WorkerRef& worker) {
  // The lease goes back once, with the first sign that the runner is gone.
  if (assembly_.left(worker)) context_.leases.release(worker, job_.number);
  file();
  context_.queue_changed = true;
}

// A worker that drains has a chance now to be rid of the job.
void JobRunners::part(const std::string& reason, bool at_once) {
  run_.end(reason);
  for (const WorkerRef& worker : assembly_.workers()) {
    if (run_.releases(worker)) assembly_.suspect(worker);
  }
  // A second part() does not prolong the wait for other workers.
  if (assembly_.mode() != Assembly::Mode::parted) parted_at_ = context_.now.steady;
  // A runner that hangs does not use its grace period.
  const auto grace = at_once ? std::chrono::milliseconds(0) : context_.limits.stop_grace;
  leave(assembly_.part(context_.now.steady + grace + context_.limits.stop_timeout), grace, reason);
}

void JobRunners::stop(const std::string& reason) {
  take_up_until_.reset();
  run_.drop_memory();
  run_.end(reason);
  const auto grace = context_.limits.stop_grace;
  leave(assembly_.stop(context_.now.steady + grace + context_.limits.stop_timeout), grace, reason);
}

void JobRunners::leave(Assembly::Leaving leaving, std::chrono::milliseconds grace,
                       const std::string& reason) {
  for (const WorkerRef& worker : leaving.released) context_.leases.release(worker, job_.number);
  file();
  context_.queue_changed = true;
  // The table gives the free workers to waiting jobs when the event is done.
  if (leaving.tell.empty()) return;
  context_.actions.push_back(
      StopRunners{job_.id, assembly_.assembly(), std::move(leaving.tell), grace, reason});
}

std::vector<WorkerRef> JobRunners::tick() {
  Assembly::Late late = assembly_.late(context_.now.steady);
  for (const WorkerRef& worker : late.to_go) {
    context_.actions.push_back(
        ExpelWorker{worker, cat("its runner of job '", job_.id, "' did not stop in time")});
  }
  return std::move(late.to_come);
}

bool JobRunners::waited_too_long() {
  const Clock::Steady now = context_.now.steady;
  // The runners that have not come back by now are replaced.
  if (take_up_until_ && now >= *take_up_until_) {
    take_up_until_.reset();
    context_.queue_changed = true;
    file();
  }
  if (assembly_.mode() != Assembly::Mode::parted) return false;
  if (context_.journal.refuses()) parted_at_ = now;             // no worker can come
  if (demand_.leaves_out_any()) context_.queue_changed = true;  // the time of one may be over
  return now >= parted_at_ + context_.limits.keep_survivors;
}

}  // namespace leat
