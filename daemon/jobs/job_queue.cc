#include "daemon/jobs/job_queue.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// True if the job leaves the workers that it has, and gets none of them again at once.
bool leaves_workers(ClusterJob& job) {
  switch (job.state()) {
    case JobState::starting:
    case JobState::recovering:
      return false;
    case JobState::running: {
      const auto& yields = job.runners().run().yields();
      return yields && yields->then != RunYield::Then::moves;
    }
    default:
      return true;
  }
}

}  // namespace

void JobQueue::restore(const StoredJob& job) {
  int64_t& turn = turns_[job.terms.user];
  turn = std::max(turn, job.first_ran_ms);
}

// Later than all turns, also if the date was set back.
void JobQueue::took_turn(const std::string& user) {
  int64_t last = context_.now.wall_ms;
  for (const auto& [name, turn] : turns_) last = std::max(last, turn + 1);
  turns_[user] = last;
}

std::vector<uint64_t> JobQueue::order() {
  std::vector<QueuedJob> jobs;
  for (const uint64_t number : unfinished_) {
    ClusterJob& job = jobs_.at(number);
    if (job.state() == JobState::paused || job.state() == JobState::pausing) continue;
    if (job.writes() == ClusterJob::Write::submit) continue;
    const StoredJob& stored = job.stored();
    QueuedJob& queued = jobs.emplace_back();
    queued = {.number = number,
              .priority = stored.terms.priority,
              .user = stored.terms.user,
              .workers = 0,
              .turn = turns_[stored.terms.user]};
    queued.waits = job.waits() || job.awaits_its_own();
    queued.recovers = queued.waits && job.state() == JobState::recovering;
    queued.workers = std::max(job.runners().demand().least(), job.runners().assembly().size());
  }
  std::vector<uint64_t> order = queue_order(jobs);
  context_.positions.clear();
  for (const uint64_t number : order)
    context_.positions[number] = static_cast<uint32_t>(context_.positions.size() + 1);
  return order;
}

bool JobQueue::can_start(ClusterJob& job) const {
  return job.waits() && !context_.journal.is_held() && !job.failures().backs_off();
}

void JobQueue::schedule() {
  context_.queue_changed = false;
  context_.queue_version = ++context_.version;
  context_.head.reset();
  reserved_.reset();
  const std::vector<uint64_t> waiting = order();
  for (const uint64_t number : waiting) {
    ClusterJob& job = jobs_.at(number);
    const JobDemand& demand = job.runners().demand();
    if (!job.awaits_its_own()) {
      // A job that cannot use the workers that exist is passed over.
      if (!can_start(job) || demand.wanted() > demand.usable()) continue;
      if (context_.head) {
        backfill(job);
        continue;
      }
      if (demand.wanted() <= demand.free()) {
        start(job, extra_for(job, waiting), {});
        continue;
      }
    }
    if (!context_.head) become_head(job);
    // The workers of a job that waits for its own ones are not known yet.
    if (job.awaits_its_own()) break;
  }
  note_holders();
}

size_t JobQueue::extra_for(const ClusterJob& job, const std::vector<uint64_t>& waiting) const {
  if (context_.head || job.stored().min_workers == 0) return 0;
  ClusterJob& own = jobs_.at(job.stored().number);
  size_t asked = own.runners().demand().wanted();
  for (const uint64_t number : waiting) {
    ClusterJob& other = jobs_.at(number);
    const JobDemand& demand = other.runners().demand();
    if (&other == &job || !can_start(other) || demand.wanted() > demand.usable()) continue;
    asked += demand.wanted();
  }
  const size_t free = own.runners().demand().free();
  return free - std::min(free, asked);
}

void JobQueue::become_head(ClusterJob& job) {
  const uint64_t number = job.stored().number;
  context_.head = TableContext::Head{number, job.stored().id, std::nullopt};
  if (job.awaits_its_own()) return;
  const JobDemand& demand = job.runners().demand();
  const std::vector<std::string> fit = demand.fit();
  fit_ = {fit.begin(), fit.end()};
  make_room(job);
  const auto& limits = context_.limits;
  const Clock::Steady soon =
      context_.now.steady + limits.last_save + limits.stop_grace + limits.stop_timeout;
  std::vector<std::optional<Clock::Steady>> busy;
  for (const std::string& name : fit_) {
    if (context_.leases.has_room(name, demand.share())) continue;
    // All leases of a worker have ended when the last one has.
    std::optional<Clock::Steady> until = context_.now.steady;
    bool is_own = false;
    for (const uint64_t holder : context_.leases.jobs_of(name)) {
      ClusterJob& other = jobs_.at(holder);
      is_own = is_own || holder == number;
      const auto ends = is_coming(other, name) ? soon : other.ends_by();
      until = until && ends ? std::optional(std::max(*until, *ends)) : std::nullopt;
    }
    if (!is_own) busy.push_back(until);
  }
  reserved_.emplace(demand.wanted(), demand.free(), busy);
  if (const auto shadow = reserved_->shadow_time()) context_.head->by_ms = wall_of(*shadow);
}

void JobQueue::backfill(ClusterJob& job) {
  const JobDemand& demand = job.runners().demand();
  if (!reserved_ || demand.wanted() > demand.free()) return;
  // The head may have changed since, and take turns with the job for which this one made way.
  const auto made_way = made_way_.find(job.stored().number);
  if (made_way != made_way_.end() && context_.positions.contains(made_way->second)) return;
  // Workers that the head could not use delay nobody.
  const std::vector<std::string> of_head(fit_.begin(), fit_.end());
  if (demand.wanted() <= demand.free_but(of_head)) return start(job, 0, of_head);
  const auto ends = job.ends_by();
  if (!reserved_->admits(demand.wanted(), ends)) return;
  reserved_->take(demand.wanted(), ends);
  start(job, 0, {});
}

void JobQueue::start(ClusterJob& job, size_t extra, const std::vector<std::string>& avoid) {
  const bool begins = job.state() == JobState::queued;
  job.start_assembly(extra, avoid);
  made_way_.erase(job.stored().number);
  if (begins && job.writes() == ClusterJob::Write::change) took_turn(job.stored().terms.user);
}

void JobQueue::make_room(ClusterJob& head) {
  const JobDemand& demand = head.runners().demand();
  size_t missing = demand.wanted() - std::min(demand.wanted(), demand.free());
  missing -= std::min(missing, coming());
  if (missing == 0) return;
  const int64_t priority = head.stored().terms.priority;
  const std::string& id = head.stored().id;
  // Elastic jobs give what they have beyond their least.
  std::vector<std::pair<ClusterJob*, size_t>> givers;
  size_t given = 0;
  std::vector<Yielding> candidates;
  for (const uint64_t number : context_.assembled) {
    ClusterJob& job = jobs_.at(number);
    const StoredJob& stored = job.stored();
    if (!job.may_yield() || job.runners().run().yields()) continue;
    const size_t fit = fit_workers_of(job), has = job.runners().assembly().size();
    const size_t least = job.runners().demand().least();
    if (stored.terms.priority <= priority && has > least && given < missing) {
      const size_t gives = std::min({fit, has - least, missing - given});
      if (gives > 0) givers.emplace_back(&job, gives);
      given += gives;
    } else if (stored.terms.priority < priority && stored.terms.preemptible) {
      candidates.push_back({number, stored.terms.priority, fit});
    }
  }
  const std::vector<uint64_t> victims =
      given < missing ? jobs_to_preempt(std::move(candidates), missing - given)
                      : std::vector<uint64_t>();
  if (given < missing && victims.empty()) return;  // nothing would be won by it
  for (const auto& [job, gives] : givers)
    job->runners().run().give_back(gives, fit_,
                                   cat("gives back workers, for which '", id, "' waits"));
  for (const uint64_t number : victims) {
    ClusterJob& job = jobs_.at(number);
    job.runners().run().ask_to_yield(
        {.cause = cat("makes way for '", id, "', of priority ", priority),
         .saves = true,
         .then = RunYield::Then::requeues});
    job.touch();
    made_way_[number] = head.stored().number;
  }
}

bool JobQueue::is_coming(ClusterJob& job, const std::string& worker) const {
  if (leaves_workers(job) || job.runners().run().gives_back(worker)) return true;
  const uint64_t* incarnation = context_.leases.incarnation_of(worker);
  return incarnation != nullptr && !job.runners().assembly().has_place({worker, *incarnation});
}

size_t JobQueue::coming() const {
  return static_cast<size_t>(std::count_if(fit_.begin(), fit_.end(), [this](const auto& name) {
    const std::vector<uint64_t> holders = context_.leases.jobs_of(name);
    return !holders.empty() && std::all_of(holders.begin(), holders.end(), [&](uint64_t holder) {
      return is_coming(jobs_.at(holder), name);
    });
  }));
}

size_t JobQueue::fit_workers_of(ClusterJob& job) const {
  const std::vector<WorkerRef> workers = job.runners().assembly().workers();
  return static_cast<size_t>(
      std::count_if(workers.begin(), workers.end(), [this](const auto& each) {
        // A worker that others share does not become free with one of them.
        return fit_.contains(each.name) && context_.leases.jobs_of(each.name).size() == 1;
      }));
}

void JobQueue::grow() {
  // Workers go to running jobs only if no waiting job could use them.
  if (context_.queue_changed || context_.head || context_.journal.is_held()) return;
  size_t free = context_.leases.free();
  for (const uint64_t number : context_.assembled) {
    ClusterJob& job = jobs_.at(number);
    if (!job.may_yield()) continue;
    const JobDemand& demand = job.runners().demand();
    if (!demand.share().is_whole()) {
      (void)job.runners().run().grow(demand.free());
    } else if (free > 0) {
      free -= job.runners().run().grow(free);
    }
  }
}

void JobQueue::note_holders() {
  context_.holders.clear();
  for (const uint64_t number : context_.assembled) {
    ClusterJob& job = jobs_.at(number);
    const auto ends = job.ends_by();
    context_.holders[number] = {job.stored().id,
                                ends ? std::optional(wall_of(*ends)) : std::nullopt};
  }
}

int64_t JobQueue::wall_of(Clock::Steady time) const {
  using std::chrono::milliseconds;
  const auto from_now = std::chrono::duration_cast<milliseconds>(time - context_.now.steady);
  return context_.now.wall_ms + from_now.count();
}

}  // namespace leat
