#include "daemon/jobs/cluster_job.h"

#include <algorithm>
#include <utility>

#include "daemon/base/units.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Wish = JobWishes::Kind;

}  // namespace

ClusterJob::ClusterJob(TableContext& context, StoredJob job)
    : context_(context),
      job_(std::move(job)),
      runners_(context, job_),
      failures_(context, job_, runners_),
      past_(context, job_),
      time_(context, job_, runners_) {}

void ClusterJob::restore() {
  // The state itself changes in the first advance(), because that is a write of the journal.
  had_runners_ = state_after_restart(state()).has_value();
  if (state_after_restart(state()) == JobState::recovering && job_.condition.assembly > 0)
    runners_.restore();
  failures_.restore();
  time_.restore();
  if (job_.ended_with) runners_.run().progress().restore(*job_.ended_with);
  touch();
}

void ClusterJob::ask(Wish kind, const std::string& by, uint64_t ticket) {
  // To ask twice is no error, nor to resume a job that runs.
  if (wishes_.is_fulfilled(kind, state())) return context_.answer(ticket, view());
  wishes_.add(kind, by, ticket);
  context_.queue_changed = true;
  advance();
}

void ClusterJob::tick() {
  // Nothing else ends the wait for these runners: a worker that lives may never start one.
  const auto late = runners_.tick();
  for (const WorkerRef& worker : late) {
    runners_.assembly().suspect(worker);
    failures_.of_worker(worker, cat("the runner on '", worker.name, "' "), "did not start in time",
                        false, std::nullopt);
  }
  // Asked before part() below, which takes the late runners out.
  const bool too_late = runners_.waited_too_long();
  if (runners_.assembly().mode() == Assembly::Mode::parted && !late.empty())
    runners_.part("it did not start in time", failures_.last_was_stuck());
  if (too_late) {
    runners_.stop(cat("no worker has come in the place of others for ",
                      context_.limits.keep_survivors.count(), " ms"));
  }
  const bool asked = runners_.run().yields().has_value();
  auto over = time_.tick();
  if (over && !finished_ && failures_.now() == nullptr) leave_ = std::move(over);
  // The view has the reason of the request.
  if (!asked && runners_.run().yields()) touch();
  advance();
}

// Decisions ---------------------------------------------------------------------------------------

void ClusterJob::advance() {
  // One write at a time: written() calls this again, and so does the table after the pause of a
  // failed write.
  if (write_ != Write::none || context_.journal.is_held() || has_ended(state())) return;
  // A user may ask for the opposite before the first request is in the journal.
  for (const Wish kind : {Wish::pause, Wish::resume}) {
    if (wishes_.has(kind) && wishes_.is_fulfilled(kind, state()))
      answer(wishes_.fulfil(kind), Status());
  }
  if (had_runners_) {
    const JobState next = *state_after_restart(state());
    // The user had cancelled the job before the restart, and its runners are not waited for.
    if (next != JobState::recovering) return propose(changed(next, job_.condition.reason));
    const std::string cause = "the master restarted";
    if (job_.condition.assembly > 0)
      past_.lost(cause, failures_.now(), runners_.run().progress().last().step);
    return propose(changed(next, cause));
  }
  switch (state()) {
    case JobState::queued:
    case JobState::paused:
      if (wishes_.has(Wish::cancel)) {
        const bool began = job_.condition.assembly > 0;
        return propose(changed(JobState::cancelled, began ? "cancelled" + wishes_.by(Wish::cancel)
                                                          : "cancelled before it started"));
      }
      if (wishes_.has(Wish::pause))
        return propose(changed(JobState::paused, "paused" + wishes_.by(Wish::pause)));
      if (wishes_.has(Wish::resume))
        propose(changed(JobState::queued, "resumed" + wishes_.by(Wish::resume)));
      return;
    case JobState::starting:
    case JobState::running:
    case JobState::recovering:
    case JobState::pausing:
      return advance_with_runners();
    // The lease of each worker ends with its runner, so the job is CANCELLED only after the last
    // one.
    case JobState::cancelling:
      if (runners_.assembly().all_gone())
        propose(changed(JobState::cancelled, job_.condition.reason));
      return;
    default:
      return;
  }
}

// The run comes to a fence, or ends otherwise; then its runners are stopped.
void ClusterJob::advance_pausing() {
  if (failures_.now() != nullptr) {
    if (failures_.waits_for_more()) return;
    // A failure that would come again is not forgotten. After any other one the job has less than
    // its last steps in its checkpoint, and computes them again.
    JobFailures::Verdict verdict = failures_.verdict();
    if (!failures_.now()->may_pass) {
      past_.lost(failures_.now()->reason(), failures_.now(), failures_.now()->step);
      return propose(changed(JobState::failed, verdict.reason));
    }
    failures_.forget();
    runners_.stop(job_.condition.reason);
  }
  // Its time is over, and it has not come to a fence.
  if (leave_ && runners_.run().runs()) runners_.stop(leave_->reason);
  if (runners_.assembly().all_gone()) propose(changed(JobState::paused, job_.condition.reason));
}

void ClusterJob::advance_with_runners() {
  // The order of these tests is the order of precedence. A fault comes first, since its caller
  // waits for the answer. A finished job stays finished although a user cancels it or a worker is
  // lost after that.
  if (past_.has_faults())
    return write(Write::note, JobNoted{job_.id, past_.write_lost(), past_.write_faults()});
  if (finished_) {
    JobCondition next = changed(JobState::succeeded, "");
    next.result = *finished_;
    return propose(std::move(next));
  }
  // A cancel wins over a failure: the user does not want another attempt.
  if (wishes_.has(Wish::cancel))
    return propose(changed(JobState::cancelling, "cancelled" + wishes_.by(Wish::cancel)));
  if (state() == JobState::pausing) return advance_pausing();
  if (wishes_.has(Wish::pause))
    return propose(changed(JobState::pausing, "paused" + wishes_.by(Wish::pause)));
  if (leave_) return propose(changed(leave_->state, leave_->reason));
  if (failures_.now() != nullptr) return advance_failed();
  // There is no run that could come to a fence, so the assembly ends here.
  if (auto why = runners_.run().leave_drained()) {
    failures_.give_up(std::move(*why), runners_.run().progress().last().step);
    return advance_failed();
  }
  if (past_.has_lost())
    return write(Write::note, JobNoted{job_.id, past_.write_lost(), past_.write_faults()});
  const Assembly& assembly = runners_.assembly();
  // A job that recovers gets its next assembly from JobTable::schedule().
  if (assembly.mode() != Assembly::Mode::going) return;
  // The journal has the assembly now, so its runners may be started.
  if (assembly.is_leased()) {
    runners_.ask();
  } else if (state() != JobState::running && assembly.all_there()) {
    propose(changed(JobState::running, ""));
  }
}

void ClusterJob::advance_failed() {
  if (failures_.waits_for_more()) return;
  // The links are judged before the loss is noted, because the verdict changes its cause and
  // culprit.
  failures_.judge_links();
  JobFailure* failure = failures_.now();
  past_.lost(failure->reason(), failure, runners_.run().progress().last().step);
  // After lost(), which clears the mark of a crash if a fault of the job's chaos did it.
  JobFailures::Verdict verdict = failures_.verdict();
  const JobState state = verdict.tries_again ? JobState::recovering : JobState::failed;
  JobCondition next = changed(state, std::move(verdict.reason));
  if (verdict.tries_again && failure->counts) ++next.restarts;
  propose(std::move(next));
}

bool ClusterJob::waits() const {
  if (write_ != Write::none || had_runners_) return false;
  if (wishes_.has(Wish::cancel) || wishes_.has(Wish::pause)) return false;
  // A job that made way for another one has to be rid of its runners first.
  if (state() == JobState::queued) return runners_.assembly().all_gone();
  if (state() != JobState::recovering || failures_.now() != nullptr) return false;
  return !runners_.awaits_workers() && runners_.assembly().may_renew();
}

void ClusterJob::start_assembly(size_t extra, const std::vector<std::string>& avoid) {
  // The workers are leased before the journal has the assembly, so no other job gets them;
  // refused() gives them back.
  if (!runners_.renew(extra, avoid)) return;
  time_.renew();
  failures_.renew();
  past_.renew();
  const bool first = state() == JobState::queued;
  JobCondition next = changed(first ? JobState::starting : JobState::recovering,
                              first ? "" : job_.condition.reason);
  const Assembly& assembly = runners_.assembly();
  next.assembly = assembly.assembly();
  next.workers.clear();
  for (const WorkerRef& worker : assembly.workers()) next.workers.push_back(worker.name);
  propose(std::move(next));
}

// A job whose end is near, or that a user is about to stop, is left alone.
bool ClusterJob::may_yield() const {
  return state() == JobState::running && write_ == Write::none && failures_.now() == nullptr &&
         !finished_ && !leave_ && !wishes_.has(Wish::cancel) && !wishes_.has(Wish::pause);
}

// The journal -------------------------------------------------------------------------------------

JobCondition ClusterJob::changed(JobState state, std::string reason) const {
  JobCondition next = job_.condition;
  // The time of a state counts from its first condition: a further one in the same state keeps it.
  if (next.state != state) next.since_ms = context_.now.wall_ms;
  next.state = state;
  next.reason = std::move(reason);
  return next;
}

void ClusterJob::write(Write what, JournalRecord record) {
  write_ = what;
  context_.write(job_.number, std::move(record));
}

void ClusterJob::propose(JobCondition next) {
  next_ = std::move(next);
  JobChanged record{job_.id, next_, past_.write_lost()};
  // The report goes into the same write as the end: after a restart no runner can send it again.
  if (has_ended(next_.state)) record.ended_with = runners_.run().progress().last_if_any();
  write(Write::change, std::move(record));
}

void ClusterJob::written(const Status& status) {
  // The faults of the note are answered first, with the outcome of the write.
  answer(past_.written(status.ok()), status);
  const Write what = std::exchange(write_, Write::none);
  // The table handles the end of a submit and of a forget.
  if (what != Write::change && what != Write::note) return;
  // A note that failed needs no more: JobPast has taken its entries back.
  if (what == Write::change && !status.ok()) return refused(status);
  // Now the change is visible, and the job acts on it.
  const JobCondition before = job_.condition;
  if (what == Write::change) job_.become(std::move(next_));
  touch();
  context_.queue_changed = true;
  if (what == Write::change) entered(before);
  advance();
}

void ClusterJob::refused(const Status& status) {
  if (next_.assembly != job_.condition.assembly) {  // its workers were leased in advance
    runners_.undo();
    failures_.forget();
  }
  // The users who cancel hear at once that the disk is full. The wish itself stays, and is written
  // after the pause.
  const JobState state = next_.state;
  const bool cancels = state == JobState::cancelling || state == JobState::cancelled;
  const bool pauses = state == JobState::pausing || state == JobState::paused;
  if (!cancels && !pauses && state != JobState::queued) return;
  const Wish kind = cancels ? Wish::cancel : pauses ? Wish::pause : Wish::resume;
  answer(wishes_.answer(kind), resource_exhausted(cat("job '", job_.id, "' is not ",
                                                      cancels  ? "cancelled"
                                                      : pauses ? "paused"
                                                               : "resumed",
                                                      " yet, since the journal cannot be written: ",
                                                      status.message(), "; it is tried again")));
}

void ClusterJob::entered(const JobCondition& before) {
  const JobCondition& now = job_.condition;
  // The first condition after a restart is written.
  had_runners_ = false;
  if (now.state == JobState::recovering && now.assembly == before.assembly &&
      failures_.now() != nullptr) {
    finished_.reset();  // too late: the assembly is given up
    failures_.settle(now.reason);
  }
  // The runners of a new assembly are asked for in the advance() that follows.
  if (now.assembly != before.assembly) past_.began();
  if (now.state == JobState::queued) {
    // From PAUSED, or from a fence: then its runners go, and the job waits in the queue.
    leave_.reset();
    failures_.forget();
    runners_.stop(now.reason);
    answer(wishes_.fulfil(Wish::resume), Status());
  } else if (now.state == JobState::pausing || now.state == JobState::paused) {
    answer(wishes_.fulfil(Wish::pause), Status());
    // A run that has stopped at a fence already does not answer another request.
    const bool runs = runners_.run().runs() && failures_.now() == nullptr && !leave_;
    leave_.reset();
    failures_.forget();
    if (runs && now.state == JobState::pausing) {
      runners_.run().ask_to_yield(
          {.cause = now.reason, .saves = true, .then = RunYield::Then::requeues});
    } else {
      runners_.stop(now.reason);
    }
  } else if (now.state == JobState::running) {
    runners_.run().begin();
    RunJob go{job_.id, now.assembly, runners_.assembly().workers()};
    for (const FiredFault& each : job_.fired) go.fired.push_back(each.index);
    // The wall clock may have been set back, so the difference may be negative.
    const int64_t ran = context_.now.wall_ms - job_.first_ran_ms;
    go.ran = std::chrono::milliseconds(std::max<int64_t>(0, ran));
    context_.actions.push_back(std::move(go));
  } else if (now.state == JobState::cancelling || has_ended(now.state)) {
    runners_.stop(now.state == JobState::succeeded ? "the job is done" : now.reason);
    answer(has_ended(now.state) ? wishes_.drop_all() : wishes_.answer(Wish::cancel), Status());
  }
}

void ClusterJob::answer(std::vector<uint64_t> tickets, const Status& status) {
  for (const uint64_t ticket : tickets) {
    context_.answer(ticket, status.ok() ? Result<JobView>(view()) : Result<JobView>(status));
  }
}

// Views -------------------------------------------------------------------------------------------

std::string ClusterJob::waiting_reason() const {
  // A job that only runs does not wait for the journal, although the journal refuses others.
  const bool changes = state() != JobState::running || write_ != Write::none ||
                       failures_.now() != nullptr || finished_ || wishes_.has(Wish::cancel) ||
                       wishes_.has(Wish::pause);
  if (context_.journal.refuses() && changes && !has_ended(state()))
    return cat("waits for the journal: ", context_.journal.status().message());
  if (state() == JobState::recovering && runners_.awaits_workers())
    return "waits for the runners that it had";
  if (!waits()) return "";
  if (failures_.backs_off()) return "waits a while, since it failed before it had come farther";
  const auto place = context_.positions.find(job_.number);
  const bool behind = place != context_.positions.end() && place->second > 1;
  const auto over = context_.over_quota.find(job_.number);
  return cat(behind ? cat("position ", place->second, "; ") : "",
             over != context_.over_quota.end() ? over->second
                                               : runners_.demand().text(runners_.some_kept()));
}

uint64_t ClusterJob::version() const {
  // The text of a waiting job changes with the queue and with the workers, and not only by events
  // of the job.
  const bool waits = state() == JobState::queued || state() == JobState::recovering;
  return waits ? std::max(version_, context_.queue_version) : version_;
}

JobView ClusterJob::view() const {
  JobView view;
  view.number = job_.number;
  view.id = job_.id;
  view.name = job_.name;
  view.num_workers = job_.num_workers;
  view.min_workers = job_.min_workers;
  view.submitted_ms = job_.submitted_ms;
  view.condition = job_.condition;
  view.times = job_.times;
  view.times.add(state(), context_.now.wall_ms - job_.condition.since_ms);
  view.progress = runners_.run().progress().progress();
  view.history = job_.history;
  view.version = version();
  const QueueTerms& terms = job_.terms;
  view.priority = terms.priority;
  view.user = terms.user;
  if (terms.max_run_time.count() > 0) view.max_run_time_ms = terms.max_run_time.count();
  view.preemptible = terms.preemptible;
  view.cores = static_cast<uint32_t>(terms.cpu);
  view.memory_bytes = terms.memory;
  if (const auto place = context_.positions.find(job_.number); place != context_.positions.end())
    view.position = place->second;
  // The reason in the journal tells why the job is in its state. For a view it is replaced or
  // completed by what the job waits for at this moment.
  std::string& reason = view.condition.reason;
  const AssemblyRun& run = runners_.run();
  if (state() == JobState::running && run.yields() && run.yields()->then != RunYield::Then::moves)
    reason = run.yields()->cause;
  if (state() == JobState::running && !run.waits_for().empty()) reason = run.waits_for();
  if (state() == JobState::running && !run.missing().empty()) {
    std::vector<std::string> texts;
    for (const auto& each : run.missing()) texts.push_back(each.text);
    reason = cat("goes on though ", join(texts, ", and "));
  }
  if (const std::string waiting = waiting_reason(); !waiting.empty())
    reason += (reason.empty() ? "" : "; ") + waiting;
  return view;
}

}  // namespace leat
