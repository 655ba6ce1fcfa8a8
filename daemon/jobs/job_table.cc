#include "daemon/jobs/job_table.h"

#include <algorithm>
#include <utility>

#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Digits of a job's id after its name, and those of an id when the short ones are taken.
constexpr int kIdDigits = 4;
constexpr int kManyIdDigits = 8;
constexpr int kVersionBits = 32;  // of the versions of one generation

// The table's own knowledge of its workers follows the events of membership.h.
void note_worker(TableContext& context, const WorkerLost& event) {
  context.leases.remove(event.worker.name);
  context.silent.erase(event.worker.name);
  context.queue_changed = true;
}
void note_worker(TableContext& context, const WorkerDraining& event) {
  context.leases.set_draining(event.worker.name, event.draining);
  context.queue_changed = true;
}
void note_worker(TableContext& context, const WorkerSilent& event) {
  if (event.silent) {
    context.silent.insert(event.worker.name);
  } else {
    context.silent.erase(event.worker.name);
  }
}
// A stuck worker keeps its lease; its job decides.
void note_worker(TableContext&, const WorkerStuck&) {}

void stop_runner(TableContext& context, const std::string& job, uint64_t assembly,
                 const WorkerRef& worker, std::string reason) {
  context.actions.push_back(
      StopRunners{job, assembly, {worker}, context.limits.stop_grace, std::move(reason)});
}

}  // namespace

JobTable::JobTable(const JobTableLimits& limits, std::function<uint64_t()> random)
    : context_{.limits = limits},
      random_(std::move(random)),
      queue_(context_, jobs_, unfinished_) {}

JobActions JobTable::restore(const std::vector<StoredJob>& jobs, Moment now, uint64_t generation) {
  context_.now = now;
  // Versions of this generation are above all of the one before.
  context_.version = std::max(context_.version, generation << kVersionBits);
  std::vector<const StoredJob*> ended;
  for (const StoredJob& stored : jobs) {
    // The job's memory of its runners is rebuilt; no decision is made before all jobs are there.
    ClusterJob& job = jobs_.add(std::make_unique<ClusterJob>(context_, stored));
    job.restore();
    queue_.restore(stored);
    last_number_ = std::max(last_number_, stored.number);
    if (has_ended(job.state())) {
      ended.push_back(&stored);
    } else {
      unfinished_.insert(stored.number);
    }
  }
  // The retention forgets the job first that ended first, and the journal has them by number.
  std::stable_sort(ended.begin(), ended.end(), [](const StoredJob* a, const StoredJob* b) {
    return a->condition.since_ms < b->condition.since_ms;
  });
  for (const StoredJob* job : ended) ended_.add(job->number, job->condition.since_ms);
  for (const uint64_t number : unfinished_) jobs_.at(number).advance();
  context_.queue_changed = true;
  return settle();
}

JobActions JobTable::handle(JobEvent event, Moment now) {
  context_.now = now;
  std::visit([this](auto& each) { on(std::move(each)); }, event);
  return settle();
}

JobActions JobTable::settle() {
  // The order: workers are given out first, so that the answers below show whether a job waits.
  if (context_.queue_changed) queue_.schedule();
  if (context_.journal.is_idle()) set_refuses(false);  // no job wants anything of the journal
  for (const auto& [ticket, number] : std::exchange(submitted_, {})) {
    context_.answer(ticket, jobs_.at(number).view());
  }
  // Jobs beyond the retention are forgotten now. A job whose write is in flight, or whose runners
  // are not all gone, is skipped until a later event.
  if (!context_.journal.is_held()) {
    ended_.drop(context_.limits.retention, context_.now.wall_ms, [this](uint64_t number) {
      ClusterJob& job = jobs_.at(number);
      if (job.writes() == ClusterJob::Write::none && job.runners().assembly().all_gone())
        job.write(ClusterJob::Write::forget, JobForgotten{job.stored().id});
      return job.writes() == ClusterJob::Write::forget;
    });
  }
  return std::exchange(context_.actions, {});
}

// Requests ----------------------------------------------------------------------------------------

void JobTable::on(SubmitAsked event) {
  const Submission& asked = event.submission;
  const auto refuse = [&](Status status) { context_.answer(event.ticket, std::move(status)); };
  if (const Status status = check_submission(asked); !status.ok()) return refuse(status);
  const Sha256Digest content = content_of(asked);
  // A client that heard no answer repeats its request: it gets the job that it has submitted.
  if (const ClusterJob* job = jobs_.of_request(asked.terms.user, asked.request_id)) {
    const StoredJob& stored = job->stored();
    if (stored.content != content) {
      return refuse(invalid_argument(cat("submit: request id '", asked.request_id,
                                         "' was used before, for job '", stored.id,
                                         "' with other content; expected a new id for a new job")));
    }
    const auto submitting = submitting_.find(stored.number);
    // The first request is still being written. Both are answered with its outcome.
    if (submitting != submitting_.end()) return submitting->second.push_back(event.ticket);
    return context_.answer(event.ticket, job->view());
  }
  if (unfinished_.size() >= context_.limits.max_unfinished) {
    return refuse(resource_exhausted(
        cat("job '", asked.name, "' was not accepted: ", unfinished_.size(),
            " jobs are unfinished, expected at most ", context_.limits.max_unfinished)));
  }
  if (const Status status = check_quota(asked); !status.ok()) return refuse(status);
  // The job exists from now on, but it is invisible until the journal has it.
  JobSubmitted record;
  record.number = ++last_number_;
  record.id = new_id(asked.name);
  record.at_ms = context_.now.wall_ms;
  record.content = content;
  record.submission = std::make_shared<const Submission>(std::move(event.submission));
  ClusterJob& job = jobs_.add(std::make_unique<ClusterJob>(context_, leat::stored(record)));
  unfinished_.insert(record.number);
  submitting_[record.number].push_back(event.ticket);
  job.write(ClusterJob::Write::submit, std::move(record));
}

Status JobTable::check_quota(const Submission& asked) const {
  const Quotas& quotas = context_.limits.quotas;
  const std::string& user = asked.terms.user;
  const bool session = is_session(asked);
  const auto refuse = [&](const std::string& expected, std::string_view key, size_t received) {
    return resource_exhausted(cat(session ? "session '" : "job '", asked.name,
                                  "' was not accepted: ", user_for_people(user), " may have ",
                                  expected, " (", key, "), and there ",
                                  received == 1 ? "is " : "are ", received));
  };
  size_t jobs = 0, sessions = 0;
  for (const uint64_t number : unfinished_) {
    const StoredJob& job = jobs_.at(number).stored();
    if (job.terms.user != user) continue;
    ++jobs;
    if (job.session) ++sessions;
  }
  if (const auto most = static_cast<size_t>(quotas.jobs); most > 0 && jobs >= most)
    return refuse(cat(counted(most, "job"), " that wait or run"), "quotas.jobs", jobs);
  const auto most_sessions = static_cast<size_t>(quotas.sessions);
  if (session && most_sessions > 0 && sessions >= most_sessions) {
    return refuse(cat(counted(most_sessions, "session"), " at a time"), "quotas.sessions",
                  sessions);
  }
  // Any other job waits until the user's others leave it enough.
  const size_t least = asked.min_workers > 0 ? asked.min_workers : asked.num_workers;
  const auto most_workers = static_cast<size_t>(quotas.workers);
  if (most_workers == 0 || least <= most_workers) return {};
  return resource_exhausted(cat(session ? "session '" : "job '", asked.name,
                                "' was not accepted: ", user_for_people(user), " may hold ",
                                counted(most_workers, "worker"),
                                " together (quotas.workers), and it asks for ", least));
}

void JobTable::on(const CancelAsked& event) {
  const auto found = jobs_.look_up(event.id);
  if (!found.ok()) return context_.answer(event.ticket, found.status());
  ClusterJob& job = **found;
  // To cancel twice is no error.
  if (has_ended(job.state())) return context_.answer(event.ticket, job.view());
  job.ask(JobWishes::Kind::cancel, event.by, event.ticket);
}

void JobTable::on(const PauseAsked& event) {
  const auto found = jobs_.look_up(event.id);
  if (!found.ok()) return context_.answer(event.ticket, found.status());
  ClusterJob& job = **found;
  if (has_ended(job.state()) || job.state() == JobState::cancelling) {
    const char* expected = event.undo ? "one that is paused" : "one that goes on";
    return context_.answer(event.ticket,
                           failed_precondition(cat("job '", job.stored().id, "' is ",
                                                   name_of(job.state()), ": expected ", expected)));
  }
  const auto kind = event.undo ? JobWishes::Kind::resume : JobWishes::Kind::pause;
  job.ask(kind, event.by, event.ticket);
}

void JobTable::on(const RemoveAsked& event) {
  const auto found = jobs_.look_up(event.id);
  if (!found.ok()) return context_.answer(event.ticket, found.status());
  const ClusterJob& job = **found;
  // settle() writes it, and forget_written() answers.
  if (has_ended(job.state())) return ended_.ask(job.stored().number, event.ticket);
  context_.answer(event.ticket,
                  failed_precondition(cat("job '", job.stored().id, "' is ", name_of(job.state()),
                                          ": expected one that has ended")));
}

void JobTable::on(const JobWeighed& event) {
  if (const ClusterJob* job = jobs_.find(event.job))
    ended_.weigh(job->stored().number, event.bytes);
}

// Workers and runners -----------------------------------------------------------------------------

void JobTable::on(const WorkerJoined& event) {
  Leases& leases = context_.leases;
  if (leases.has(event.worker)) return;
  // Membership reports the loss first as a rule; the leases must not hold two lives of one name.
  if (const uint64_t* old = leases.incarnation_of(event.worker.name))
    on(WorkerLost{{event.worker.name, *old}, "another process of that name has joined"});
  leases.add(event.worker, event.datasets, event.gpus, {event.cores, event.memory});
  context_.queue_changed = true;
  // After add(): a job can only claim a worker that the leases know.
  for (const HeldRunner& runner : event.runners) take_up(event.worker, runner);
}

void JobTable::take_up(const WorkerRef& worker, const HeldRunner& runner) {
  ClusterJob* job = jobs_.find(runner.job);
  if (job != nullptr && job->runners().take_up(worker, runner)) return;
  stop_runner(context_, runner.job, runner.assembly, worker, "no assembly goes on with it");
  if (job != nullptr) job->runners().expel(worker, runner.assembly);
}

template <OfWorker Event>
void JobTable::on(const Event& event) {
  // An event of an earlier life of the worker.
  if (!context_.leases.has(event.worker)) return;
  // The jobs are looked up first, because a lost worker has no lease after note_worker().
  const std::vector<uint64_t> numbers = context_.leases.jobs_of(event.worker.name);
  note_worker(context_, event);
  for (const uint64_t number : numbers) (void)jobs_.at(number).handle(event);
}

template <OfJob Event>
void JobTable::on(const Event& event) {
  ClusterJob* job = jobs_.find(event.job);
  if (job != nullptr && job->handle(event)) return;
  // An unexpected runner would compute for nothing, and hold its worker's devices.
  if constexpr (std::is_same_v<Event, RunnerStarted>) {
    stop_runner(context_, event.job, event.assembly, event.worker,
                "it is not, or no longer, of a job's assembly that goes on");
  }
}

void JobTable::on(const FaultAsked& event) {
  ClusterJob* job = jobs_.find(event.job);
  if (job == nullptr || !job->handle(event)) context_.refuse(event, "the job's assembly is over");
}

// Time --------------------------------------------------------------------------------------------

void JobTable::on(const Tick&) {
  // A copy, because a job may leave the set in its tick().
  const std::vector<uint64_t> assembled(context_.assembled.begin(), context_.assembled.end());
  for (const uint64_t number : assembled) jobs_.at(number).tick();
  std::erase_if(context_.backing_off, [this](uint64_t number) {
    ClusterJob* job = jobs_.find(number);
    if (job != nullptr && !job->failures().resume()) return false;
    // The wait is over, or the job is gone: it leaves the set, and the queue is looked at anew.
    return context_.queue_changed = true;
  });
  queue_.grow();
  if (!context_.journal.resume(context_.now)) return;
  context_.queue_changed = true;
  for (const uint64_t number : unfinished_) jobs_.at(number).advance();
}

// The journal -------------------------------------------------------------------------------------

// Many jobs may wait for it.
void JobTable::set_refuses(bool refuses) {
  if (!context_.journal.set_refuses(refuses)) return;
  for (const uint64_t number : unfinished_) jobs_.at(number).touch();
}

void JobTable::on(const JournalWritten& event) {
  const uint64_t number = context_.journal.end(event, context_.now, context_.limits.retry_after);
  if (number == 0) return;
  set_refuses(!event.status.ok());
  ClusterJob& job = jobs_.at(number);
  const ClusterJob::Write what = job.writes();
  // written() may change the state, so what must be known of the time before is read first.
  const bool had_ended = has_ended(job.state());
  job.written(event.status);
  if (what == ClusterJob::Write::submit) return submit_written(job, event.status);
  if (what == ClusterJob::Write::forget) return forget_written(job, event.status);
  if (had_ended || !has_ended(job.state())) return;
  unfinished_.erase(number);
  ended_.add(number, job.stored().condition.since_ms);
}

void JobTable::submit_written(ClusterJob& job, const Status& status) {
  const uint64_t number = job.stored().number;
  // All clients that sent this request while it was written.
  const auto tickets = std::move(submitting_.extract(number).mapped());
  if (status.ok()) {
    job.touch();
    // settle() answers them: when workers are given out it shows whether the job waits.
    for (const uint64_t ticket : tickets) submitted_.emplace_back(ticket, number);
    context_.queue_changed = true;
    return;
  }
  const Status refused = resource_exhausted(
      cat("job '", job.stored().name,
          "' was not accepted, since the journal cannot be written: ", status.message()));
  for (const uint64_t ticket : tickets) context_.answer(ticket, refused);
  unfinished_.erase(number);
  jobs_.erase(job, false);
}

void JobTable::forget_written(ClusterJob& job, const Status& status) {
  const StoredJob& stored = job.stored();
  const auto tickets = ended_.answered(stored.number);
  const Status refused = resource_exhausted(
      cat("job '", stored.id,
          "' is not removed, since the journal cannot be written: ", status.message()));
  if (status.ok()) context_.actions.push_back(RemoveJob{stored.id});
  for (const uint64_t ticket : tickets) {
    context_.answer(ticket, status.ok() ? Result<JobView>(job.view()) : Result<JobView>(refused));
  }
  if (!status.ok()) return;
  // The views go first, then the job: `stored` is a part of it.
  ended_.erase(stored.number);
  ++context_.version;
  jobs_.erase(job, true);
}

std::string JobTable::new_id(std::string_view name) {
  // After 16 collisions the ids get longer, so the loop ends.
  for (int attempt = 0;; ++attempt) {
    std::string id = make_job_id(name, random_(), attempt < 16 ? kIdDigits : kManyIdDigits);
    if (!jobs_.is_taken(id) && !context_.limits.taken_ids.contains(id)) return id;
  }
}

// Views -------------------------------------------------------------------------------------------

Result<JobView> JobTable::find(std::string_view id) const {
  LEAT_ASSIGN_OR_RETURN(const ClusterJob* job, jobs_.look_up(id));
  return job->view();
}

std::string JobTable::job_of_request(std::string_view user, std::string_view request_id) const {
  const ClusterJob* job = jobs_.of_request(user, request_id);
  return job == nullptr ? "" : job->stored().id;
}

std::vector<JobView> JobTable::jobs(uint64_t version) const {
  std::vector<JobView> jobs;
  for (const auto& [number, job] : jobs_.all()) {
    // Not visible yet. The long lists of each job are left out, since the answer has all jobs.
    if (job->writes() == ClusterJob::Write::submit) continue;
    if (version > 0 && job->version() <= version) continue;
    jobs.push_back(job->view());
    jobs.back().history.last.clear();
    jobs.back().progress.epochs.clear();
  }
  return jobs;
}

std::vector<std::string> JobTable::jobs_on(std::string_view worker) const {
  std::vector<std::string> ids;
  for (const uint64_t number : context_.leases.jobs_of(worker)) {
    if (const ClusterJob* job = jobs_.find(number)) ids.push_back(job->stored().id);
  }
  return ids;
}

}  // namespace leat
