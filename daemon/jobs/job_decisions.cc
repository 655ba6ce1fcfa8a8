// What becomes of a job, from its state in the journal and the facts: the decisions of the table of
// jobs. And how people see it.
#include <algorithm>

#include "daemon/jobs/job_entry.h"
#include "daemon/jobs/job_table.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int kMostAlike = 3;  // crashes at one step

bool may_pass(Code code) { return code == Code::unavailable || code == Code::deadline_exceeded; }

}  // namespace

// Decisions ---------------------------------------------------------------------------------------

void JobTable::advance(Entry& entry) {
  if (entry.write != Entry::Write::none || held_until_ || has_ended(entry.state())) return;
  if (entry.had_runners) {
    const JobState next = *state_after_restart(entry.state());
    const bool again = next == JobState::recovering;
    if (again && entry.job.condition.assembly > 0) lost_assembly(entry, "the master restarted");
    return propose(
        entry, changed(entry, next, again ? "the master restarted" : entry.job.condition.reason));
  }
  switch (entry.state()) {
    case JobState::queued:
      if (entry.cancel_asked) {
        propose(entry, changed(entry, JobState::cancelled, "cancelled before it started"));
      }
      return;
    case JobState::starting:
    case JobState::running:
    case JobState::recovering:
      return advance_with_runners(entry);
    case JobState::cancelling:
      if (entry.assembly.all_gone()) {
        propose(entry, changed(entry, JobState::cancelled, entry.job.condition.reason));
      }
      return;
    default:
      return;
  }
}

void JobTable::advance_with_runners(Entry& entry) {
  if (!entry.asked.empty()) return note(entry);
  if (entry.finished) {
    JobCondition next = changed(entry, JobState::succeeded, "");
    next.result = *entry.finished;
    return propose(entry, std::move(next));
  }
  if (entry.cancel_asked) {
    const std::string by = entry.cancel_by.empty() ? "" : " by " + entry.cancel_by;
    return propose(entry, changed(entry, JobState::cancelling, "cancelled" + by));
  }
  if (entry.failure) return advance_failed(entry);
  if (leaves_workers(entry)) return advance_failed(entry);
  if (!entry.lost.empty()) return note(entry);
  if (!entry.assembly.is_going()) return;
  if (entry.assembly.is_leased()) {
    StartRunners start{entry.job.id, entry.assembly.assembly(), {}, {}};
    for (const auto& [worker, kept] : entry.assembly.ask(now_.steady + limits_.start_timeout)) {
      start.workers.push_back(worker);
      start.kept.push_back(kept);
    }
    actions_.push_back(std::move(start));
  } else if (entry.state() != JobState::running && entry.assembly.all_there()) {
    propose(entry, changed(entry, JobState::running, ""));
  }
}

void JobTable::advance_failed(Entry& entry) {
  Entry::Failure& failure = *entry.failure;
  failure.step = std::max(failure.step, entry.progress.last().step);  // the run tells more by now
  const bool waits = failure.until && now_.steady < *failure.until && !knows_enough(entry);
  if (waits && !entry.assembly.all_gone()) return;
  if (may_be_silence(entry)) return;
  judge_links(entry);
  const JobCondition& now = entry.job.condition;
  const size_t recent = entry.failures.recent(failure.step);
  std::string reason = failure.reason();
  lost_assembly(entry, reason);
  if (failure.may_pass) {
    if (entry.last_failure && failure.same_as(*entry.last_failure))
      failure.alike = entry.last_failure->alike + 1;
    if (failure.alike == kMostAlike) {
      reason = cat("three times at step ", failure.step, ": ", failure.text);
    } else if (!failure.counts || recent < entry.job.max_restarts) {
      JobCondition next = changed(entry, JobState::recovering, std::move(reason));
      if (failure.counts) ++next.restarts;
      return propose(entry, std::move(next));
    } else if (recent > 0) {
      reason = cat(
          reason, "; after ", counted(recent, "restart"),
          recent < now.restarts ? cat(" within ", FailureBudget::kForgivenAfter, " steps") : "");
    }
  }
  propose(entry, changed(entry, JobState::failed, std::move(reason)));
}

JobCondition JobTable::changed(const Entry& entry, JobState state, std::string reason) const {
  JobCondition next = entry.job.condition;
  if (next.state != state) next.since_ms = now_.wall_ms;
  next.state = state;
  next.reason = std::move(reason);
  return next;
}

void JobTable::propose(Entry& entry, JobCondition next) {
  entry.next = std::move(next);
  entry.write = Entry::Write::change;
  entry.next_lost = std::exchange(entry.lost, {});
  writes_[++last_write_] = entry.job.number;
  JobChanged record{entry.job.id, entry.next, entry.next_lost};
  if (has_ended(entry.next.state)) record.ended_with = entry.progress.last_if_any();
  actions_.push_back(WriteJournal{last_write_, std::move(record)});
}

// What is known of its past, and nothing else.
void JobTable::note(Entry& entry) {
  entry.next_lost = std::exchange(entry.lost, {});
  for (const FaultAsked& each : std::exchange(entry.asked, {})) {
    entry.next_fired.push_back({each.index, each.fault, each.assembly, now_.wall_ms});
    entry.fire_tickets.push_back(each.ticket);
  }
  entry.write = Entry::Write::note;
  writes_[++last_write_] = entry.job.number;
  actions_.push_back(
      WriteJournal{last_write_, JobNoted{entry.job.id, entry.next_lost, entry.next_fired}});
}

// A job that gets nowhere tries again later, and later still.
void JobTable::back_off(Entry& entry) {
  const auto wait = entry.failures.add(entry.last_failure->step);
  if (wait.count() == 0) return;
  entry.not_before = now_.steady + wait;
  backing_off_.insert(entry.job.number);
}

// The change from `before` is in the journal: what was decided is done.
void JobTable::entered(Entry& entry, const JobCondition& before) {
  const JobCondition& now = entry.job.condition;
  entry.had_runners = false;
  if (now.state == JobState::recovering && now.assembly == before.assembly && entry.failure) {
    entry.last_failure = std::exchange(entry.failure, std::nullopt);
    if (entry.last_failure->counts) back_off(entry);
    entry.finished.reset();  // too late: the assembly is given up
    entry.last_failure->keeps ? part(entry, now.reason) : stop(entry, now.reason);
  }
  if (now.assembly != before.assembly) entry.assembly_began_ms = now_.wall_ms;
  if (now.state == JobState::running) {
    entry.runs = true;
    entry.ran_at = now_.steady;
    if (entry.job.first_ran_ms == 0) entry.job.first_ran_ms = now.since_ms;
    RunJob go{entry.job.id, now.assembly, entry.assembly.workers()};
    for (const FiredFault& each : entry.job.fired) go.fired.push_back(each.index);
    go.ran = std::chrono::milliseconds(std::max<int64_t>(0, now_.wall_ms - entry.job.first_ran_ms));
    actions_.push_back(std::move(go));
  } else if (now.state == JobState::cancelling) {
    stop(entry, now.reason);
    answer_cancels(entry, Status());
  } else if (has_ended(now.state)) {
    unfinished_.erase(entry.job.number);
    ended_[entry.end = ++last_end_] = entry.job.number;
    stop(entry, now.state == JobState::succeeded ? "the job is done" : now.reason);
    answer_cancels(entry, Status());
  }
}

void JobTable::schedule() {
  queue_changed_ = false;
  queue_version_ = ++version_;
  head_ = 0;
  for (const uint64_t number : unfinished_) {
    Entry& entry = *entries_[number];
    const bool first_in_line = entry.state() == JobState::recovering && awaits_workers(entry);
    if (first_in_line && !entry.cancel_asked) {  // what it will need shows in a moment
      head_ = number;
      break;
    }
    if (!waits(entry) || held_until_ || entry.not_before) continue;
    const size_t wants = wanted(entry), kept = entry.assembly.kept();
    if (wants > usable(entry)) continue;
    if (wants > leases_.free_but(unfit(entry))) {
      head_ = number;
      break;
    }
    auto left_out = this->left_out(entry, true);
    if (wants > leases_.free_but(left_out)) left_out = this->left_out(entry);
    if (wants > leases_.free_but(left_out)) continue;  // until the time of those is over
    const size_t gets = std::min(entry.job.num_workers - kept, leases_.free_but(left_out));
    const auto before = kept > 0 ? entry.assembly.vacant()  // their tasks
                                 : entry.job.condition.workers;
    const auto joining = leases_.take(gets, number, before, left_out);
    for (const WorkerRef& worker : joining) entry.holders.erase(worker.name);  // it begins empty
    entry.assembly.renew(entry.job.condition.assembly + 1, joining, kept + gets);
    entry.take_up_until.reset();
    entry.progress.restart();
    entry.stepped = false;
    entry.spared_from = 0;
    entry.missing.clear();
    entry.links.renew();
    entry.fault_came_ms = 0;
    assembled_.insert(number);
    const bool first = entry.state() == JobState::queued;
    JobCondition next = changed(entry, first ? JobState::starting : JobState::recovering,
                                first ? "" : entry.job.condition.reason);
    next.assembly = entry.assembly.assembly();
    next.workers.clear();
    for (const WorkerRef& worker : entry.assembly.workers()) next.workers.push_back(worker.name);
    propose(entry, std::move(next));
  }
}

bool JobTable::may_forget(const Entry& entry) const {
  return entry.write == Entry::Write::none && entry.assembly.all_gone();
}

void JobTable::propose_to_forget(Entry& entry) {
  entry.write = Entry::Write::forget;
  writes_[++last_write_] = entry.job.number;
  actions_.push_back(WriteJournal{last_write_, JobForgotten{entry.job.id}});
}

void JobTable::drop_ended() {
  if (held_until_) return;
  for (const uint64_t number : unwanted_) {
    if (Entry& entry = *entries_[number]; may_forget(entry)) propose_to_forget(entry);
  }
  EndedJobs left{static_cast<int64_t>(ended_.size()), ended_bytes_, {}};
  for (const auto& [end, number] : ended_) {
    Entry& entry = *entries_[number];
    left.oldest = std::chrono::milliseconds(now_.wall_ms - entry.job.condition.since_ms);
    if (!forgets_oldest(limits_.retention, left)) return;
    if (may_forget(entry)) propose_to_forget(entry);
    if (entry.write != Entry::Write::forget) continue;  // another one goes in its place
    --left.count;
    left.bytes -= entry.bytes;
  }
}

// Runners -----------------------------------------------------------------------------------------

void JobTable::end_run(Entry& entry, const std::string& reason) {
  entry.yield.reset();
  entry.waits_for.clear();
  if (!std::exchange(entry.runs, false)) return;
  actions_.push_back(EndRun{entry.job.id, entry.assembly.assembly(), reason});
}

// Nobody is kept.
void JobTable::stop(Entry& entry, const std::string& reason) {
  entry.take_up_until.reset();
  entry.holders.clear();
  end_run(entry, reason);
  leave(entry, entry.assembly.stop(now_.steady + limits_.stop_grace + limits_.stop_timeout),
        limits_.stop_grace, reason);
}

// Those whom the failure did not befall are kept. A worker that drains has its next chance to be
// rid of its job now.
void JobTable::part(Entry& entry, const std::string& reason) {
  end_run(entry, reason);
  for (const WorkerRef& worker : entry.assembly.workers()) {
    if (lets_go(entry, worker)) entry.assembly.suspect(worker);
  }
  if (!entry.assembly.is_parted()) entry.parted_at = now_.steady;
  const bool is_stuck = entry.last_failure && entry.last_failure->stuck;
  const auto grace = is_stuck ? std::chrono::milliseconds(0) : limits_.stop_grace;
  leave(entry, entry.assembly.part(now_.steady + grace + limits_.stop_timeout), grace, reason);
}

void JobTable::leave(Entry& entry, Assembly::Leaving leaving, std::chrono::milliseconds grace,
                     const std::string& reason) {
  for (const WorkerRef& worker : leaving.released) leases_.release(worker, entry.job.number);
  if (entry.assembly.all_gone() && !entry.take_up_until) assembled_.erase(entry.job.number);
  queue_changed_ = true;
  if (leaving.tell.empty()) return;
  actions_.push_back(
      StopRunners{entry.job.id, entry.assembly.assembly(), std::move(leaving.tell), grace, reason});
}

void JobTable::member_left(Entry& entry, const WorkerRef& worker) {
  if (entry.assembly.left(worker)) leases_.release(worker, entry.job.number);
  if (entry.assembly.all_gone() && !entry.take_up_until) assembled_.erase(entry.job.number);
  queue_changed_ = true;
  advance(entry);
}

// Of a worker or a process. The first cause stays, but for what the run takes for one: that its
// peers are gone says less than why. And what comes of our own stop is none, nor what befalls those
// that are kept between two assemblies.
void JobTable::set_failure(Entry& entry, const WorkerRef& worker, std::string subject,
                           std::string how, bool crash, std::chrono::milliseconds detected_after) {
  if (!entry.assembly.is_going() || has_ended(entry.state())) return;
  if (!entry.assembly.has_place(worker)) return;
  if (entry.failure && (!entry.failure->how.empty() || !entry.failure->until)) return;
  Entry::Failure failure;
  failure.text = std::move(subject) + how;
  failure.how = std::move(how);
  failure.culprit = worker.name;
  failure.at_ms = entry.failure ? entry.failure->at_ms : now_.wall_ms;
  failure.detected_after = detected_after.count();
  failure.may_pass = failure.keeps = true;
  failure.counts = !entry.assembly.is_held_over(worker);
  failure.crash = crash;
  failure.step = entry.progress.last().step;
  failure.seen = now_.steady;
  if (entry.failure) {
    failure.of_run = std::move(entry.failure->of_run);
  } else if (entry.runs) {
    failure.until = now_.steady + std::min(limits_.other_side, limits_.run_tells);
  }
  entry.failure = std::move(failure);
}

void JobTable::set_failure(Entry& entry, const Status& of_run) {
  if (!entry.assembly.is_going() || has_ended(entry.state())) return;
  if (entry.failure) {
    if (!entry.failure->until) return;
    entry.failure->of_run = of_run.message();
    entry.failure->until.reset();
    return;
  }
  Entry::Failure failure;
  failure.text = of_run.to_string();
  failure.of_run = of_run.message();
  failure.at_ms = now_.wall_ms;
  failure.may_pass = may_pass(of_run.code());
  failure.keeps = of_run.code() == Code::unavailable;
  failure.crash = entry.missing.empty();
  if (!entry.missing.empty()) failure.culprit = entry.missing.back().worker;
  failure.step = entry.progress.last().step;
  failure.seen = now_.steady;
  if (failure.may_pass) failure.until = now_.steady + limits_.other_side;
  entry.failure = std::move(failure);
}

std::string JobTable::Entry::Failure::reason() const {
  if (how.empty()) return text;
  std::string reason = text;
  if (of_run.find(how) != std::string::npos) {  // it says more of the same
    const bool names = of_run.find(culprit) != std::string::npos;
    reason = cat(names ? "" : text.substr(0, text.size() - how.size()), of_run);
  } else if (!of_run.empty()) {
    reason = cat(text, "; ", of_run);
  }
  const bool tells_step = step == 0 || reason.find("step ") != std::string::npos;
  return tells_step ? reason : cat(reason, ", after step ", step);
}

// Views -------------------------------------------------------------------------------------------

void JobTable::touch(Entry& entry) { entry.version = ++version_; }

bool JobTable::waits(const Entry& entry) const {
  if (entry.write != Entry::Write::none || entry.had_runners || entry.cancel_asked) return false;
  if (entry.state() == JobState::queued) return true;
  if (entry.state() != JobState::recovering || entry.failure) return false;
  return !awaits_workers(entry) && entry.assembly.may_renew();
}

// Something is to be written of it.
bool JobTable::wants_to_change(const Entry& entry) const {
  if (has_ended(entry.state())) return false;
  return entry.state() != JobState::running || entry.write != Entry::Write::none || entry.failure ||
         entry.finished || entry.cancel_asked;
}

// The master has started again, and there is one who may come back and have a runner still.
bool JobTable::awaits_workers(const Entry& entry) const {
  if (!entry.take_up_until) return false;
  const auto names = entry.assembly.vacant();
  return std::any_of(names.begin(), names.end(), [this](const std::string& name) {
    return leases_.incarnation_of(name) == nullptr;
  });
}

// Workers that it has to get for its next assembly.
size_t JobTable::wanted(const Entry& entry) const {
  return entry.least() - std::min(entry.least(), entry.assembly.kept());
}

// Workers that it could get, now or when others are done with them.
size_t JobTable::usable(const Entry& entry) const {
  const std::vector<std::string> unfit = this->unfit(entry);
  size_t own = 0;
  for (const WorkerRef& worker : entry.assembly.workers()) {
    const bool kept = entry.assembly.kept() > 0 && entry.assembly.has_place(worker);
    const bool fit = std::find(unfit.begin(), unfit.end(), worker.name) == unfit.end();
    if (kept && fit && !leases_.is_draining(worker.name)) ++own;
  }
  return leases_.usable_but(unfit) - own;
}

std::vector<std::string> JobTable::unfit(const Entry& entry) const {
  return entry.job.dataset.empty() ? std::vector<std::string>()
                                   : leases_.without(entry.job.dataset);
}

// "; 'w3' lacks it; 'w4' is drained": of the workers that are there, why they are of no use to it.
std::string JobTable::who_is_none(const Entry& entry) const {
  constexpr size_t kNamed = 4;
  std::string text;
  const auto add = [&](std::vector<std::string> names, const char* of_one, const char* of_many) {
    if (names.empty()) return;
    const size_t more = names.size() - std::min(names.size(), kNamed);
    const char* does = names.size() == 1 ? of_one : of_many;
    names.resize(names.size() - more);
    text += cat("; '", join(names, "', '"), "'", more > 0 ? cat(" and ", more, " more") : "", does);
  };
  const std::vector<std::string> unfit = this->unfit(entry);
  add(unfit, " lacks it", " lack it");
  std::vector<std::string> drained = leases_.draining();
  std::erase_if(drained, [&](const std::string& name) {
    return std::find(unfit.begin(), unfit.end(), name) != unfit.end();
  });
  add(std::move(drained), " is drained", " are drained");
  return text;
}

std::string JobTable::waiting_reason(const Entry& entry) const {
  if (entry.state() == JobState::recovering && awaits_workers(entry))
    return "waits for the runners that it had";
  if (!waits(entry)) return "";
  if (entry.not_before) return "waits a while, since it failed before it had come farther";
  const size_t kept = entry.assembly.kept();
  std::string wants = "waits for " + counted(wanted(entry), "worker");
  const bool lacks_some = !unfit(entry).empty() || wanted(entry) > usable(entry);
  if (!entry.job.dataset.empty() && lacks_some)
    wants += cat(" with data set '", entry.job.dataset, "'");
  if (kept > 0) wants += cat(" more, ", kept, kept == 1 ? " keeps" : " keep", " the job in memory");
  if (wanted(entry) > usable(entry)) {
    const std::string there = kept > 0 ? "" : cat(", ", usable(entry), " there");
    return cat(wants, there, who_is_none(entry));
  }
  const auto left_out = this->left_out(entry);
  const auto unfit = this->unfit(entry);
  const size_t free = leases_.free_but(unfit);
  if (wanted(entry) > leases_.free_but(left_out) && wanted(entry) <= free) {
    const std::vector<std::string> names(left_out.begin() + static_cast<ptrdiff_t>(unfit.size()),
                                         left_out.end());
    return cat(wants, ", and leaves '", join(names, "', '"), "' out for now");
  }
  const auto head = entries_.find(head_);
  const bool overtakes = head != entries_.end() && head_ < entry.job.number;
  return cat(wants, ", ", free, " free", who_is_none(entry),
             overtakes ? cat("; '", head->second->job.id, "' is before it") : "");
}

JobView JobTable::view(const Entry& entry) const {
  JobView view;
  view.number = entry.job.number;
  view.id = entry.job.id;
  view.name = entry.job.name;
  view.num_workers = entry.job.num_workers;
  view.min_workers = entry.job.min_workers;
  view.submitted_ms = entry.job.submitted_ms;
  view.condition = entry.job.condition;
  view.progress = entry.progress.progress();
  view.history = entry.job.history;
  view.version = entry.version;
  if (entry.state() == JobState::running && !entry.waits_for.empty())
    view.condition.reason = entry.waits_for;
  if (entry.state() == JobState::running && !entry.missing.empty()) {
    std::vector<std::string> texts;
    for (const Entry::Missing& each : entry.missing) texts.push_back(each.text);
    view.condition.reason = cat("goes on though ", join(texts, ", and "));
  }
  std::string waiting;
  if (entry.state() == JobState::queued || entry.state() == JobState::recovering) {
    view.version = std::max(view.version, queue_version_);
    waiting = waiting_reason(entry);
  }
  if (refuses_ && wants_to_change(entry))
    waiting = cat("waits for the journal: ", journal_status_.message());
  std::string& reason = view.condition.reason;
  if (!waiting.empty()) reason += (reason.empty() ? "" : "; ") + waiting;
  return view;
}

JobTable::Entry* JobTable::find_entry(std::string_view id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : entries_.at(found->second).get();
}

JobTable::Entry* JobTable::find_assembly(std::string_view id, uint64_t assembly) const {
  Entry* entry = find_entry(id);
  return entry != nullptr && assembly != 0 && entry->assembly.assembly() == assembly ? entry : nullptr;
}

Result<JobTable::Entry*> JobTable::look_up(std::string_view prefix) const {
  Entry* exact = find_entry(prefix);
  if (exact != nullptr && exact->is_visible()) return exact;
  std::vector<Entry*> matches;
  for (auto at = ids_.lower_bound(prefix); at != ids_.end() && !prefix.empty(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    Entry* entry = entries_.at(at->second).get();
    if (entry->is_visible()) matches.push_back(entry);
  }
  if (matches.size() == 1) return matches.front();
  if (matches.empty()) return failed_precondition(cat("there is no job '", prefix, "'"));
  std::vector<std::string> ids;
  for (const Entry* entry : matches) ids.push_back(entry->job.id);
  if (ids.size() > 5) ids.resize(5), ids.push_back("...");
  return invalid_argument(cat("'", prefix, "' begins the ids of ", matches.size(),
                              " jobs, expected one: ", join(ids, ", ")));
}

Result<JobView> JobTable::find(std::string_view id) const {
  LEAT_ASSIGN_OR_RETURN(const Entry* entry, look_up(id));
  return view(*entry);
}

std::vector<JobView> JobTable::jobs() const {
  std::vector<JobView> jobs;
  for (const auto& [number, entry] : entries_) {
    if (!entry->is_visible()) continue;
    jobs.push_back(view(*entry));
    jobs.back().history.last.clear();
    jobs.back().progress.epochs.clear();
  }
  return jobs;
}

std::string JobTable::job_on(std::string_view worker) const {
  const auto found = entries_.find(leases_.job_of(worker));
  return found == entries_.end() ? "" : found->second->job.id;
}

}  // namespace leat
