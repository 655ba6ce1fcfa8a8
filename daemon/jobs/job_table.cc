// Events, and what the journal says to the changes that they led to. job_decisions.cc decides on
// the changes.
#include "daemon/jobs/job_table.h"

#include <algorithm>

#include "daemon/jobs/job_entry.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::chrono::milliseconds kNotKnown{-1};
constexpr int kIdDigits = 4;
constexpr int kManyIdDigits = 8;
constexpr int kVersionBits = 32;  // of the versions of one generation

}  // namespace

JobTable::JobTable(const JobTableLimits& limits, std::function<uint64_t()> random)
    : limits_(limits), random_(std::move(random)) {}

JobTable::~JobTable() = default;

JobActions JobTable::restore(const std::vector<StoredJob>& jobs, Moment now, uint64_t generation) {
  now_ = now;
  version_ = std::max(version_, generation << kVersionBits);
  std::vector<Entry*> ended;
  for (const StoredJob& job : jobs) {
    auto entry = std::make_unique<Entry>();
    entry->job = job;
    entry->had_runners = state_after_restart(entry->state()).has_value();
    if (entry->had_runners && entry->state() != JobState::cancelling && job.condition.assembly > 0) {
      entry->assembly.take_up(job.condition.assembly, job.condition.workers);
      hold(*entry, false);
      entry->parted_at = now.steady;
      entry->take_up_until = now.steady + limits_.take_up;
      assembled_.insert(job.number);
    }
    entry->assembly_began_ms = job.condition.since_ms;
    entry->failures = FailureBudget(
        job.condition.restarts,
        job.history.last.empty() ? 0 : std::max<int64_t>(0, job.history.last.back().stopped_at));
    touch(*entry);
    ids_[job.id] = job.number;
    requests_[job.request_id] = job.number;
    last_number_ = std::max(last_number_, job.number);
    if (job.ended_with) entry->progress.restore(*job.ended_with);
    if (has_ended(entry->state())) {
      ended.push_back(entry.get());
    } else {
      unfinished_.insert(job.number);
    }
    entries_[job.number] = std::move(entry);
  }
  std::stable_sort(ended.begin(), ended.end(), [](const Entry* a, const Entry* b) {
    return a->job.condition.since_ms < b->job.condition.since_ms;
  });
  for (Entry* entry : ended) ended_[entry->end = ++last_end_] = entry->job.number;
  for (const uint64_t number : unfinished_) advance(*entries_[number]);
  queue_changed_ = true;
  return settle();
}

JobActions JobTable::handle(JobEvent event, Moment now) {
  now_ = now;
  std::visit([this](auto& each) { on(std::move(each)); }, event);
  return settle();
}

JobActions JobTable::settle() {
  if (queue_changed_) schedule();
  if (!held_until_ && writes_.empty()) set_refuses(false);  // nobody wants anything of the journal
  for (const auto& [ticket, number] : std::exchange(submitted_, {})) {
    actions_.push_back(Answer{ticket, view(*entries_[number])});
  }
  drop_ended();
  return std::exchange(actions_, {});
}

// Requests ----------------------------------------------------------------------------------------

void JobTable::on(SubmitAsked event) {
  const auto refuse = [&](Status status) {
    actions_.push_back(Answer{event.ticket, std::move(status)});
  };
  if (const Status status = check_submission(event.submission); !status.ok()) return refuse(status);
  const Sha256Digest content = content_of(event.submission);
  const auto repeated = requests_.find(event.submission.request_id);
  if (repeated != requests_.end()) {
    Entry& entry = *entries_[repeated->second];
    if (entry.job.content != content) {
      return refuse(invalid_argument(cat("submit: request id '", event.submission.request_id,
                                         "' was used before, for job '", entry.job.id,
                                         "' with other content; expected a new id for a new job")));
    }
    if (!entry.is_visible()) return entry.submit_tickets.push_back(event.ticket);
    actions_.push_back(Answer{event.ticket, view(entry)});
    return;
  }
  if (unfinished_.size() >= limits_.max_unfinished) {
    return refuse(resource_exhausted(
        cat("job '", event.submission.name, "' was not accepted: ", unfinished_.size(),
            " jobs are unfinished, expected at ", "most ", limits_.max_unfinished)));
  }
  JobSubmitted record;
  record.number = ++last_number_;
  record.id = new_id(event.submission.name);
  record.at_ms = now_.wall_ms;
  record.content = content;
  record.submission = std::make_shared<const Submission>(std::move(event.submission));

  auto entry = std::make_unique<Entry>();
  entry->job = stored(record);
  entry->write = Entry::Write::submit;
  entry->submit_tickets.push_back(event.ticket);
  ids_[record.id] = record.number;
  requests_[entry->job.request_id] = record.number;
  unfinished_.insert(record.number);
  entries_[record.number] = std::move(entry);
  writes_[++last_write_] = record.number;
  actions_.push_back(WriteJournal{last_write_, std::move(record)});
}

std::string JobTable::job_of_request(const std::string& request_id) const {
  const auto found = requests_.find(request_id);
  return found != requests_.end() ? entries_.at(found->second)->job.id : "";
}

void JobTable::on(CancelAsked event) {
  const auto found = look_up(event.id);
  if (!found.ok()) {
    actions_.push_back(Answer{event.ticket, found.status()});
    return;
  }
  Entry& entry = **found;
  if (has_ended(entry.state()) || entry.state() == JobState::cancelling) {
    actions_.push_back(Answer{event.ticket, view(entry)});
    return;
  }
  if (!entry.cancel_asked) entry.cancel_by = std::move(event.by);
  entry.cancel_asked = true;
  entry.cancel_tickets.push_back(event.ticket);
  queue_changed_ = true;
  advance(entry);
}

void JobTable::on(const RemoveAsked& event) {
  const auto found = look_up(event.id);
  if (!found.ok()) {
    actions_.push_back(Answer{event.ticket, found.status()});
    return;
  }
  Entry& entry = **found;
  if (!has_ended(entry.state())) {
    actions_.push_back(
        Answer{event.ticket,
               failed_precondition(cat("job '", entry.job.id, "' is ", name_of(entry.state()),
                                       ": expected one that has ended"))});
    return;
  }
  entry.remove_tickets.push_back(event.ticket);
  unwanted_.insert(entry.job.number);
}

void JobTable::on(const JobWeighed& event) {
  Entry* entry = find_entry(event.job);
  if (entry == nullptr || !has_ended(entry->state())) return;
  ended_bytes_ += event.bytes - entry->bytes;
  entry->bytes = event.bytes;
}

// Workers -----------------------------------------------------------------------------------------

void JobTable::on(const WorkerJoined& event) {
  if (leases_.has(event.worker)) return;
  if (const uint64_t* old = leases_.incarnation_of(event.worker.name)) {
    on(WorkerLost{{event.worker.name, *old}, "another process of that name has joined"});
  }
  leases_.add(event.worker, event.datasets);
  queue_changed_ = true;
  for (const HeldRunner& runner : event.runners) take_up(event.worker, runner);
}

// One that a worker has held while the master was away: its job awaits it, or it is to end.
void JobTable::take_up(const WorkerRef& worker, const HeldRunner& runner) {
  Entry* entry = find_assembly(runner.job, runner.assembly);
  if (entry != nullptr && entry->take_up_until && entry->assembly.is_parted() &&
      leases_.job_of(worker.name) == 0 &&
      entry->assembly.await(worker, runner.task, *entry->take_up_until)) {
    (void)leases_.claim(worker, entry->job.number);
    assembled_.insert(entry->job.number);
    return;
  }
  actions_.push_back(StopRunners{
      runner.job, runner.assembly, {worker}, limits_.stop_grace, "nobody goes on with it"});
  // Until it is gone nobody else gets its worker.
  Entry* of = find_entry(runner.job);
  if (of == nullptr || !leases_.claim(worker, of->job.number)) return;
  of->assembly.expel(worker, runner.assembly, now_.steady + limits_.stop_grace + limits_.stop_timeout);
  assembled_.insert(of->job.number);
}

void JobTable::on(const WorkerLost& event) {
  if (!leases_.has(event.worker)) return;
  const uint64_t number = leases_.job_of(event.worker.name);
  leases_.remove(event.worker.name);
  silent_.erase(event.worker.name);
  queue_changed_ = true;
  if (number == 0) return;
  Entry& entry = *entries_[number];
  const std::string subject = cat("worker '", event.worker.name, "' was lost: ");
  if (!goes_on_without(entry, event.worker, subject + event.reason))
    set_failure(entry, event.worker, subject, event.reason, false, event.silent);
  member_left(entry, event.worker);
}

void JobTable::on(const WorkerStuck& event) {
  if (!leases_.has(event.worker)) return;
  const uint64_t number = leases_.job_of(event.worker.name);
  if (number == 0) return;
  Entry& entry = *entries_[number];
  entry.assembly.suspect(event.worker);
  set_failure(entry, event.worker, cat("worker '", event.worker.name, "' is stuck: "), event.reason,
              false, event.still);
  if (entry.failure && entry.failure->culprit == event.worker.name) entry.failure->stuck = true;
  advance(entry);
}

void JobTable::on(const WorkerDraining& event) {
  if (!leases_.has(event.worker)) return;
  leases_.set_draining(event.worker.name, event.draining);
  queue_changed_ = true;
  const uint64_t number = leases_.job_of(event.worker.name);
  if (number == 0) return;
  Entry& entry = *entries_[number];
  if (event.draining && entry.assembly.is_parted())
    part(entry, cat("worker '", event.worker.name, "' is draining"));
  advance(entry);
}

// Runners -----------------------------------------------------------------------------------------

void JobTable::on(const RunnerStarted& event) {
  Entry* entry = find_assembly(event.job, event.assembly);
  const bool expected = entry != nullptr && !entry->assembly.is_stopping() &&
                        entry->assembly.arrived(event.worker, event.assembly);
  if (!expected) {
    actions_.push_back(StopRunners{event.job,
                                   event.assembly,
                                   {event.worker},
                                   limits_.stop_grace,
                                   "it is not, or no longer, of a job's assembly that goes on"});
    return;
  }
  if (entry->assembly.is_parted()) queue_changed_ = true;  // nobody may be on his way any more
  advance(*entry);
}

void JobTable::on(const RunnerExited& event) {
  Entry* entry = find_entry(event.job);
  if (entry == nullptr || !entry->assembly.has(event.worker, event.assembly)) return;
  const std::string subject = cat("the runner on '", event.worker.name, "' ");
  if (!goes_on_without(*entry, event.worker, subject + event.end.how))
    set_failure(*entry, event.worker, subject, event.end.how, event.end.crashed, kNotKnown);
  member_left(*entry, event.worker);
}

void JobTable::on(const JobFinished& event) {
  Entry* entry = find_assembly(event.job, event.assembly);
  if (entry == nullptr || !entry->assembly.is_going()) return;
  if (entry->state() != JobState::running) return;
  entry->finished = event.result;
  advance(*entry);
}

void JobTable::on(const JobBroke& event) {
  Entry* entry = find_assembly(event.job, event.assembly);
  if (entry == nullptr || entry->assembly.all_gone()) return;
  set_failure(*entry, event.cause);
  advance(*entry);
}

void JobTable::on(const RunWaits& event) {
  Entry* entry = find_assembly(event.job, event.assembly);
  if (entry == nullptr || !entry->assembly.is_going()) return;
  entry->waits_for = event.for_what;
  touch(*entry);
}

void JobTable::on(const ProgressMade& event) {
  Entry* entry = find_assembly(event.job, event.assembly);
  if (entry == nullptr || !entry->assembly.is_going()) return;
  entry->progress.report(event.report, now_.steady);
  entry->spared_from = event.report.spared_from;
  entry->in_parts = event.report.in_parts;
  const bool steps = event.report.step > event.report.first_step;
  if (steps && !entry->stepped) hold(*entry, false);
  entry->stepped = entry->stepped || steps;
  touch(*entry);
  goes_on(*entry, event.report);
}

void JobTable::on(const Tick&) {
  const std::vector<uint64_t> assembled(assembled_.begin(), assembled_.end());
  for (const uint64_t number : assembled) {
    tick(*entries_[number]);
  }
  std::erase_if(backing_off_, [this](uint64_t number) {
    const auto entry = entries_.find(number);
    if (entry != entries_.end() && now_.steady < *entry->second->not_before) return false;
    if (entry != entries_.end()) entry->second->not_before.reset();
    return queue_changed_ = true;
  });
  grow();
  if (!held_until_ || now_.steady < *held_until_) return;
  held_until_.reset();
  queue_changed_ = true;
  for (const uint64_t number : unfinished_) advance(*entries_[number]);
}

// Of the journal, which many jobs may wait for.
void JobTable::set_refuses(bool refuses) {
  if (std::exchange(refuses_, refuses) == refuses) return;
  for (const uint64_t number : unfinished_) touch(*entries_[number]);
}

// What was to happen by now, and has not.
void JobTable::tick(Entry& entry) {
  for (const WorkerRef& worker : entry.assembly.late_to_go(now_.steady)) {
    actions_.push_back(
        ExpelWorker{worker, cat("its runner of job '", entry.job.id, "' did not stop in time")});
  }
  const auto late = entry.assembly.late_to_come(now_.steady);
  for (const WorkerRef& worker : late) {
    entry.assembly.suspect(worker);
    set_failure(entry, worker, cat("the runner on '", worker.name, "' "), "did not start in time",
                false, kNotKnown);
  }
  if (entry.take_up_until && now_.steady >= *entry.take_up_until) {
    entry.take_up_until.reset();
    queue_changed_ = true;
    if (entry.assembly.all_gone()) assembled_.erase(entry.job.number);
  }
  if (entry.assembly.is_parted() && refuses_) entry.parted_at = now_.steady;  // nobody may come
  if (entry.assembly.is_parted()) {
    if (!entry.left_out.empty()) queue_changed_ = true;  // the time of one may be over
    if (!late.empty()) part(entry, "it did not start in time");
    if (now_.steady >= entry.parted_at + limits_.keep_survivors) {
      stop(entry, cat("nobody has come in the place of others for ", limits_.keep_survivors.count(),
                      " ms"));
    }
  }
  advance(entry);
}

// The journal -------------------------------------------------------------------------------------

void JobTable::on(const JournalWritten& event) {
  const auto found = writes_.find(event.write);
  if (found == writes_.end()) return;
  Entry& entry = *entries_[found->second];
  writes_.erase(found);
  journal_status_ = event.status;
  set_refuses(!event.status.ok());
  if (refuses_) {
    held_until_ = now_.steady + limits_.retry_after;
  } else if (held_until_) {
    held_until_ = now_.steady;  // it works again: the next tick goes on
  }
  noted(entry, event.status);
  switch (std::exchange(entry.write, Entry::Write::none)) {
    case Entry::Write::submit:
      return commit_submit(entry, event.status);
    case Entry::Write::change:
      return commit_change(entry, event.status);
    case Entry::Write::note:
      touch(entry);
      queue_changed_ = true;
      return advance(entry);
    case Entry::Write::forget:
      return commit_forget(entry, event.status);
    case Entry::Write::none:
      return;
  }
}

void JobTable::commit_submit(Entry& entry, const Status& status) {
  const auto tickets = std::exchange(entry.submit_tickets, {});
  if (status.ok()) {
    touch(entry);
    // Answered in settle(): whether it waits, and for what, shows when workers are given out.
    for (const uint64_t ticket : tickets) submitted_.emplace_back(ticket, entry.job.number);
    queue_changed_ = true;
    return advance(entry);
  }
  const Status refused = resource_exhausted(
      cat("job '", entry.job.name,
          "' was not accepted, since the journal cannot be written: ", status.message()));
  for (const uint64_t ticket : tickets) actions_.push_back(Answer{ticket, refused});
  const uint64_t number = entry.job.number;
  ids_.erase(entry.job.id);
  requests_.erase(entry.job.request_id);
  unfinished_.erase(number);
  entries_.erase(number);
}

void JobTable::commit_change(Entry& entry, const Status& status) {
  if (!status.ok()) return refuse_change(entry, status);
  const JobCondition before = std::exchange(entry.job.condition, std::move(entry.next));
  touch(entry);
  queue_changed_ = true;
  entered(entry, before);
  advance(entry);
}

void JobTable::refuse_change(Entry& entry, const Status& status) {
  const JobCondition& next = entry.next;
  if (next.assembly != entry.job.condition.assembly) {  // its workers were leased in advance
    const auto released = entry.assembly.undo(entry.job.condition.assembly);
    for (const WorkerRef& worker : released) leases_.release(worker, entry.job.number);
    if (entry.assembly.all_gone()) assembled_.erase(entry.job.number);
    entry.failure.reset();  // it was about those workers
    queue_changed_ = true;
  }
  if (next.state == JobState::cancelling || next.state == JobState::cancelled) {
    answer_cancels(entry, resource_exhausted(cat("job '", entry.job.id, "' is not cancelled yet, ",
                                                 "since the journal cannot be written: ",
                                                 status.message(), "; it is tried again")));
  }
}

void JobTable::answer_cancels(Entry& entry, const Status& status) {
  for (const uint64_t ticket : std::exchange(entry.cancel_tickets, {})) {
    if (status.ok()) {
      actions_.push_back(Answer{ticket, view(entry)});
    } else {
      actions_.push_back(Answer{ticket, status});
    }
  }
}

void JobTable::commit_forget(Entry& entry, const Status& status) {
  const auto tickets = std::exchange(entry.remove_tickets, {});
  unwanted_.erase(entry.job.number);
  if (!status.ok()) {
    const Status refused = resource_exhausted(
        cat("job '", entry.job.id,
            "' is not removed, since the journal cannot be written: ", status.message()));
    for (const uint64_t ticket : tickets) actions_.push_back(Answer{ticket, refused});
    return;
  }
  actions_.push_back(RemoveJob{entry.job.id});
  forgotten_.insert(entry.job.id);
  for (const uint64_t ticket : tickets) actions_.push_back(Answer{ticket, view(entry)});
  ended_bytes_ -= entry.bytes;
  ids_.erase(entry.job.id);
  requests_.erase(entry.job.request_id);
  ended_.erase(entry.end);
  ++version_;
  entries_.erase(entry.job.number);
}

std::string JobTable::new_id(std::string_view name) {
  for (int attempt = 0;; ++attempt) {
    std::string id = make_job_id(name, random_(), attempt < 16 ? kIdDigits : kManyIdDigits);
    const bool is_taken =
        ids_.contains(id) || forgotten_.contains(id) || limits_.taken_ids.contains(id);
    if (!is_taken) return id;
  }
}

}  // namespace leat
