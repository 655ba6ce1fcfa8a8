#include "daemon/jobs/job_failures.h"

#include <algorithm>

#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int kMostAlike = 3;  // crashes at one step

// Other errors, such as invalid_argument, would come again with any workers.
bool may_pass(Code code) { return code == Code::unavailable || code == Code::deadline_exceeded; }

// The end of a process may show first as such an error of another: that a call was given up, or
// came to a process that knows nothing of the run. Then the process is the cause, and the job goes
// on.
bool may_follow_loss(Code code) {
  return may_pass(code) || code == Code::cancelled || code == Code::failed_precondition;
}

}  // namespace

std::string JobFailure::reason() const {
  const bool tells_device = device.empty() || cat(text, of_run).find(device) != std::string::npos;
  const std::string cause = tells_device ? "" : cat(": ", device);
  if (how.empty()) return text + cause;
  std::string reason = text + cause;
  // Both sides may tell the same in different words. The result names the worker, says each thing
  // once, and ends with the step unless a part of it names a step already.
  if (of_run.find(how) != std::string::npos) {  // it says more of the same
    const bool names = of_run.find(culprit) != std::string::npos;
    reason = cat(names ? "" : text.substr(0, text.size() - how.size()), of_run, cause);
  } else if (!of_run.empty()) {
    reason = cat(text, cause, "; ", of_run);
  }
  const bool tells_step = step == 0 || reason.find("step ") != std::string::npos;
  return tells_step ? reason : cat(reason, ", after step ", step);
}

bool JobFailure::same_as(const JobFailure& other) const {
  const bool alike = how.empty() ? text == other.text : how == other.how;
  return crash && other.crash && !idle && !other.idle && step == other.step && alike;
}

void JobFailures::restore() {
  const auto& lost = job_.history.last;
  const int64_t step = lost.empty() ? 0 : std::max<int64_t>(0, lost.back().stopped_at);
  // The journal has only the number of failures, so all of them count from the last known step.
  budget_ = FailureBudget(job_.condition.restarts, static_cast<uint64_t>(step));
}

void JobFailures::of_worker(const WorkerRef& worker, std::string subject, std::string how,
                            bool crash, std::optional<std::chrono::milliseconds> detected_after) {
  const Assembly& assembly = runners_.assembly();
  // The end of a runner after the end of its assembly was asked for, or follows from the failure
  // that is known. A runner without a place was told to stop.
  if (assembly.mode() != Assembly::Mode::going || has_ended(job_.condition.state)) return;
  if (!assembly.has_place(worker)) return;
  // The first process or worker that failed stays the cause. One that fails after the error of the
  // run explains it, but only while that error waits for its other side.
  if (now_ && (!now_->how.empty() || !now_->until)) return;
  JobFailure failure;
  failure.text = std::move(subject) + how;
  failure.how = std::move(how);
  failure.culprit = worker.name;
  failure.at_ms = now_ ? now_->at_ms : context_.now.wall_ms;
  if (detected_after) failure.detected_after = detected_after->count();
  failure.may_pass = failure.keeps = true;
  // A kept runner that dies before it has joined the new assembly is a late effect of the last
  // failure, which has been counted.
  failure.idle = runners_.run().idle();
  failure.counts = !assembly.is_held_over(worker) && !failure.idle;
  failure.crash = crash;
  failure.step = runners_.run().progress().last().step;
  failure.seen = context_.now.steady;
  failure.device = device_error_of(worker);
  if (now_) {
    // The worker is the other side of an error that has come already: the wait is over.
    failure.of_run = std::move(now_->of_run);
  } else if (runners_.run().runs()) {
    const auto& limits = context_.limits;
    // The run soon reports an error of its own, which may name the step or the peer.
    failure.until = context_.now.steady + std::min(limits.other_side, limits.run_tells);
  }
  now_ = std::move(failure);
}

void JobFailures::of_stuck(const WorkerRef& worker, std::string subject, std::string how,
                           std::chrono::milliseconds detected_after) {
  // The order matters: of_worker() may keep an earlier cause, but this runner must not be kept in
  // any case.
  runners_.assembly().suspect(worker);
  of_worker(worker, std::move(subject), std::move(how), false, detected_after);
  if (now_ && now_->culprit == worker.name) now_->stuck = true;
}

void JobFailures::of_run(const Status& error, const std::string& culprit) {
  if (runners_.assembly().mode() != Assembly::Mode::going || has_ended(job_.condition.state))
    return;
  if (now_) {
    // After the wait, or with its error known, the failure is complete.
    if (!now_->until) return;
    now_->of_run = error.message();
    now_->until.reset();
    return;
  }
  // A run that went on without a worker and fails later probably fails because of it. So the last
  // missing worker is the culprit, and the error is no crash of the job itself.
  const auto& missing = runners_.run().missing();
  JobFailure failure;
  failure.text = error.to_string();
  failure.of_run = error.message();
  failure.at_ms = context_.now.wall_ms;
  failure.may_pass = may_pass(error.code());
  // After deadline_exceeded any of the runners may hang, so none of them is kept.
  failure.keeps = error.code() == Code::unavailable;
  failure.crash = missing.empty();
  failure.idle = runners_.run().idle();
  failure.counts = !failure.idle;
  if (!missing.empty()) failure.culprit = missing.back().worker;
  if (!culprit.empty()) {
    failure.culprit = culprit;
    failure.crash = false;
  }
  failure.step = runners_.run().progress().last().step;
  failure.seen = context_.now.steady;
  if (may_follow_loss(error.code()))
    failure.until = context_.now.steady + context_.limits.other_side;
  now_ = std::move(failure);
}

// `until` stays empty: there is no other side to wait for, and the next decision is made at once.
void JobFailures::give_up(RunYield why, uint64_t step) {
  JobFailure failure;
  failure.text = std::move(why.cause);
  failure.culprit = std::move(why.culprit);
  failure.at_ms = context_.now.wall_ms;
  failure.may_pass = failure.keeps = true;
  failure.counts = false;
  failure.step = step;
  now_ = std::move(failure);
}

void JobFailures::link_failed(const LinkFailed& event) {
  if (!runners_.assembly().has_place(event.worker)) return;
  links_.add(event.worker.name, event.peer, event.fault, event.how, context_.now.steady);
}

// The end of the process is about to come, and is the failure.
void JobFailures::device_failed(const DeviceFailed& event) {
  if (runners_.assembly().has_place(event.worker)) devices_.emplace(event.worker.name, event);
}

std::string JobFailures::device_error_of(const WorkerRef& worker) const {
  const auto found = devices_.find(worker.name);
  return found != devices_.end() && found->second.worker == worker ? found->second.how : "";
}

bool JobFailures::waits_for_more() {
  JobFailure& failure = *now_;
  const Clock::Steady now = context_.now.steady;
  // Reports of progress may still come during the wait, and they show how far the job was.
  failure.step = std::max(failure.step, runners_.run().progress().last().step);
  if (failure.until && now < *failure.until && !runners_.assembly().all_gone()) {
    // A link that was lost or damaged needs no other side: it was not the end of a process.
    const bool knows_enough = failure.how.empty() && failure.may_pass && links_.are_at_fault(now);
    if (!knows_enough) return true;
  }
  // Both sides are known, or the time is over. Only a silent worker can delay the verdict now.
  return may_be_silence();
}

// A silent worker may be at fault. It is lost soon, or heard of again.
bool JobFailures::may_be_silence() const {
  // A known process or worker is the cause already.
  if (!now_->how.empty() || !now_->may_pass) return false;
  if (context_.now.steady >= now_->seen + context_.limits.silence) return false;
  const auto workers = runners_.assembly().workers();
  return std::any_of(workers.begin(), workers.end(), [this](const WorkerRef& worker) {
    return context_.silent.contains(worker.name) && runners_.assembly().has_place(worker);
  });
}

void JobFailures::judge_links() {
  JobFailure& failure = *now_;
  // A link fails as well when a process at its end dies: then the process is the cause.
  if (!failure.how.empty() || !failure.may_pass) return;
  Assembly& assembly = runners_.assembly();
  const std::vector<WorkerRef> workers = assembly.workers();
  std::vector<std::string> names;
  for (const WorkerRef& worker : workers) {
    // A worker that leaves takes its links with it, so they blame no other.
    if (assembly.has_place(worker)) names.push_back(worker.name);
  }
  const auto verdict = links_.judge(names, failure.of_run, context_.now.steady);
  if (!verdict) return;
  failure.keeps = true;
  failure.crash = false;
  // A job that has made steps waits for the network; one that never has may never be able to.
  failure.counts = !failure.idle && (runners_.run().stepped() || failure.step == 0);
  failure.culprit = join(verdict->go, ", ");
  failure.text = cat(verdict->text, "; ", failure.of_run);
  // The workers that leave are not kept, and get the job back only if no other is free.
  for (const WorkerRef& worker : workers) {
    if (std::find(verdict->go.begin(), verdict->go.end(), worker.name) == verdict->go.end())
      continue;
    assembly.suspect(worker);
    runners_.demand().leave_out(worker.name, false);
  }
}

JobFailures::Verdict JobFailures::verdict() {
  JobFailure& failure = *now_;
  std::string reason = failure.reason();
  if (!failure.may_pass) return {false, std::move(reason)};
  // The order of the tests: an error that would come again, then the third equal crash, then the
  // budget of restarts.
  if (last_ && failure.same_as(*last_)) failure.alike = last_->alike + 1;
  if (failure.alike == kMostAlike)
    return {false, cat("three times at step ", failure.step, ": ", failure.text)};
  const size_t recent = budget_.recent(failure.step);
  if (!failure.counts || recent < job_.max_restarts) return {true, std::move(reason)};
  // With max_restarts = 0 there is no count to tell.
  if (recent == 0) return {false, std::move(reason)};
  const bool were_more = recent < job_.condition.restarts;
  return {false, cat(reason, "; after ", counted(recent, "restart"),
                     were_more ? cat(" within ", FailureBudget::kForgivenAfter, " steps") : "")};
}

void JobFailures::settle(const std::string& reason) {
  // `last_` stays for the comparison of crashes, and for the question whether the runners hang.
  last_ = std::exchange(now_, std::nullopt);
  std::chrono::milliseconds wait{0};
  if (last_->counts) {
    wait = budget_.add(last_->step);
  } else if (last_->idle) {
    wait = budget_.pause(last_->step);
  }
  if (wait.count() > 0) {
    not_before_ = context_.now.steady + wait;
    context_.backing_off.insert(job_.number);
  }
  // part() keeps the runners that are not suspected, with the job in memory; stop() keeps none.
  last_->keeps ? runners_.part(reason, last_->stuck) : runners_.stop(reason);
}

bool JobFailures::resume() {
  if (not_before_ && context_.now.steady < *not_before_) return false;
  not_before_.reset();
  return true;
}

}  // namespace leat
