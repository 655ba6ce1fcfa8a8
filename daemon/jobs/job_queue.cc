#include "daemon/jobs/job_queue.h"

#include <algorithm>
#include <cstdint>

#include "devices/base/counted.h"
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
    const Assembly& assembly = job.runners().assembly();
    const size_t least = job.runners().demand().least();
    queued.workers = assembly.all_gone() ? least : std::max(least, assembly.size());
  }
  std::erase_if(made_way_, [this](const auto& each) {
    return !unfinished_.contains(each.first) || !unfinished_.contains(each.second);
  });
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
  context_.over_quota.clear();
  reserved_.reset();
  count_held();
  const std::vector<uint64_t> waiting = order();
  for (const uint64_t number : waiting) {
    ClusterJob& job = jobs_.at(number);
    const JobDemand& demand = job.runners().demand();
    if (!job.awaits_its_own()) {
      // A job that cannot use the workers that exist is passed over.
      const size_t wanted = demand.wanted();
      if (!can_start(job) || wanted > demand.usable() || !is_within_quota(job)) continue;
      if (context_.head) {
        backfill(job);
        continue;
      }
      if (wanted <= demand.free()) {
        start(job, extra_for(job, waiting), {});
        continue;
      }
    }
    if (!context_.head) become_head(job);
    // This job may get its old workers back. Which ones is not known yet, so no later job starts.
    if (job.awaits_its_own()) break;
  }
  note_holders();
}

size_t JobQueue::holds(ClusterJob& job) const {
  const Assembly& assembly = job.runners().assembly();
  const size_t has = assembly.all_gone() ? 0 : assembly.size();
  switch (job.state()) {
    case JobState::starting:
    case JobState::running:
    case JobState::recovering:
      // A job that recovers keeps its claim to those that it has lost.
      return std::max(has + job.runners().run().grows_by(), job.runners().demand().least());
    default:
      return has;
  }
}

void JobQueue::count_held() {
  held_.clear();
  for (const uint64_t number : unfinished_) {
    ClusterJob& job = jobs_.at(number);
    held_[job.stored().terms.user] += holds(job);
  }
}

void JobQueue::held_before(ClusterJob& job, size_t before) {
  size_t& held = held_[job.stored().terms.user];
  held = held - std::min(held, before) + holds(job);
}

size_t JobQueue::quota_of(ClusterJob& job) const {
  const auto most = static_cast<size_t>(context_.limits.quotas.workers);
  if (most == 0) return SIZE_MAX;
  const auto held = held_.find(job.stored().terms.user);
  const size_t all = held == held_.end() ? 0 : held->second;
  const size_t others = all - std::min(all, holds(job));
  return most - std::min(most, others);
}

bool JobQueue::is_within_quota(ClusterJob& job) {
  // A job that recovers has its workers from before.
  if (job.state() == JobState::recovering) return true;
  const size_t least = job.runners().demand().least(), left = quota_of(job);
  if (least <= left) return true;
  const auto most = static_cast<size_t>(context_.limits.quotas.workers);
  context_.over_quota[job.stored().number] = cat(
      "waits for ", counted(least, "worker"), ": ", user_for_people(job.stored().terms.user),
      " may hold ", counted(most, "worker"), " together (quotas.workers), and holds ", most - left);
  return false;
}

size_t JobQueue::extra_for(ClusterJob& job, const std::vector<uint64_t>& waiting) const {
  if (context_.head || job.stored().min_workers == 0) return 0;
  size_t asked = job.runners().demand().wanted();
  for (const uint64_t number : waiting) {
    ClusterJob& other = jobs_.at(number);
    const JobDemand& demand = other.runners().demand();
    if (&other == &job || !can_start(other) || demand.wanted() > demand.usable()) continue;
    // One that would pass its user's quota cannot use them.
    if (other.state() != JobState::recovering && demand.least() > quota_of(other)) continue;
    asked += demand.wanted();
  }
  const JobDemand& demand = job.runners().demand();
  const size_t free = demand.free(), kept = job.runners().assembly().kept();
  const size_t quota = quota_of(job), has = kept + demand.wanted();
  return std::min(free - std::min(free, asked), quota - std::min(quota, has));
}

void JobQueue::become_head(ClusterJob& job) {
  context_.head = TableContext::Head{job.stored().number, job.stored().id, std::nullopt};
  if (job.awaits_its_own()) return;
  look_at_workers(job);
  make_room(job);
  look_at_workers(job);  // some of them are about to be left now
  std::vector<std::optional<Clock::Steady>> busy;
  for (const auto& [name, until] : busy_) busy.push_back(until);
  const JobDemand& demand = job.runners().demand();
  reserved_.emplace(demand.wanted(), demand.free(), busy);
  if (const auto shadow = reserved_->shadow_time()) context_.head->by_ms = wall_of(*shadow);
}

void JobQueue::look_at_workers(ClusterJob& head) {
  const uint64_t number = head.stored().number;
  const JobDemand& demand = head.runners().demand();
  const auto& limits = context_.limits;
  const Clock::Steady soon =
      context_.now.steady + limits.last_save + limits.stop_grace + limits.stop_timeout;
  fit_ = demand.fit();
  busy_.clear();
  coming_ = 0;
  for (const std::string& name : fit_) {
    if (context_.leases.has_room(name, number, demand.share())) continue;
    // All leases of a worker have ended when the last one has.
    std::optional<Clock::Steady> until = context_.now.steady;
    bool is_kept = false, all_leave = true;
    for (const uint64_t holder : context_.leases.jobs_of(name)) {
      ClusterJob& other = jobs_.at(holder);
      const bool leaves = is_coming(other, name);
      is_kept = is_kept || (holder == number && !leaves);
      all_leave = all_leave && leaves;
      const auto ends = leaves ? soon : other.ends_by();
      until = until && ends ? std::optional(std::max(*until, *ends)) : std::nullopt;
    }
    // A worker that the head keeps is none that it wants.
    if (is_kept) continue;
    busy_.emplace(name, until);
    if (all_leave) ++coming_;
  }
}

void JobQueue::backfill(ClusterJob& job) {
  const JobDemand& demand = job.runners().demand();
  const size_t wanted = demand.wanted();
  if (!reserved_ || wanted > demand.free()) return;
  // The head may have changed since, and take turns with the job for which this one made way.
  const auto made_way = made_way_.find(job.stored().number);
  if (made_way != made_way_.end() && context_.positions.contains(made_way->second)) return;
  // Workers that the head could not use delay no job.
  if (wanted <= demand.free_but(fit_)) return start(job, 0, fit_);
  const auto ends = job.ends_by();
  if (!reserved_->admits(wanted, ends)) return;
  reserved_->take(wanted, ends);
  start(job, 0, {});
}

void JobQueue::start(ClusterJob& job, size_t extra, const std::vector<std::string>& avoid) {
  const bool begins = job.state() == JobState::queued;
  const size_t before = holds(job);
  job.start_assembly(extra, avoid);
  held_before(job, before);
  if (job.writes() != ClusterJob::Write::change) return;  // it has to wait yet
  made_way_.erase(job.stored().number);
  if (begins) took_turn(job.stored().terms.user);
}

void JobQueue::make_room(ClusterJob& head) {
  const JobDemand& demand = head.runners().demand();
  size_t missing = demand.wanted() - std::min(demand.wanted(), demand.free());
  missing -= std::min(missing, coming_);
  if (missing == 0) return;
  // Elastic jobs give what they have beyond their least. If that is not enough, jobs of a lower
  // priority that consent leave all that they have.
  struct Giver {
    ClusterJob* job = nullptr;
    std::vector<std::string> workers;  // that the head would get
    size_t gives = 0;                  // of them, beyond the least of the job
  };
  const int64_t priority = head.stored().terms.priority;
  std::map<uint64_t, Giver> givers;
  size_t given = 0;
  std::vector<Yielding> candidates;
  for (const uint64_t number : context_.assembled) {
    ClusterJob& job = jobs_.at(number);
    const QueueTerms& terms = job.stored().terms;
    if (!job.may_yield() || job.runners().run().yields() || terms.priority > priority) continue;
    Giver giver{&job, workers_for_head(job), 0};
    const size_t has = job.runners().assembly().size(), least = job.runners().demand().least();
    if (job.runners().run().may_move())
      giver.gives = std::min(giver.workers.size(), has - std::min(has, least));
    given += giver.gives;
    const size_t rest = giver.workers.size() - giver.gives;
    if (terms.priority < priority && terms.preemptible && rest > 0)
      candidates.push_back({number, terms.priority, rest});
    if (!giver.workers.empty()) givers.emplace(number, std::move(giver));
  }
  std::vector<uint64_t> victims;
  if (given < missing) {
    victims = jobs_to_preempt(std::move(candidates), missing - given);
    if (victims.empty()) return;  // the head cannot start, so nothing would be won by it
  }
  for (const uint64_t number : victims) {
    const Giver& victim = givers.at(number);
    missing -= std::min(missing, victim.workers.size());
    victim.job->runners().run().ask_to_yield(
        {.cause = cat("makes way for '", head.stored().id, "', of priority ", priority),
         .saves = true,
         .then = RunYield::Then::requeues});
    victim.job->touch();
    made_way_[number] = head.stored().number;
    givers.erase(number);
  }
  for (const auto& [number, giver] : givers) {
    const size_t gives = std::min(giver.gives, missing);
    if (gives == 0) continue;
    giver.job->runners().run().give_back(
        gives, giver.workers, cat("gives back workers, for which '", head.stored().id, "' waits"));
    missing -= gives;
  }
}

bool JobQueue::is_coming(ClusterJob& job, const std::string& worker) const {
  if (leaves_workers(job) || job.runners().run().gives_back(worker)) return true;
  const uint64_t* incarnation = context_.leases.incarnation_of(worker);
  return incarnation != nullptr && !job.runners().assembly().has_place({worker, *incarnation});
}

std::vector<std::string> JobQueue::workers_for_head(ClusterJob& job) const {
  const Assembly& assembly = job.runners().assembly();
  // A worker that others share does not become free with one of them.
  const std::vector<uint64_t> alone = {job.stored().number};
  std::vector<std::string> names;
  for (const WorkerRef& worker : assembly.workers()) {
    if (busy_.contains(worker.name) && assembly.has_place(worker) &&
        context_.leases.jobs_of(worker.name) == alone)
      names.push_back(worker.name);
  }
  return names;
}

void JobQueue::grow() {
  // Workers go to running jobs only if no waiting job could use them.
  if (context_.queue_changed || context_.head || context_.journal.is_held()) return;
  count_held();
  // Workers that a run is to take in at its next fence are promised to its job.
  std::set<std::string> promised;
  const auto promise = [&](const JobDemand& demand, size_t count) {
    if (count == 0) return;
    for (const std::string& name : demand.free_names()) {
      if (count == 0) return;
      if (promised.insert(name).second) --count;
    }
  };
  for (const uint64_t number : context_.assembled) {
    ClusterJob& job = jobs_.at(number);
    promise(job.runners().demand(), job.runners().run().grows_by());
  }
  for (const uint64_t number : context_.assembled) {
    ClusterJob& job = jobs_.at(number);
    if (!job.may_yield() || !job.runners().run().may_grow()) continue;
    const JobDemand& demand = job.runners().demand();
    const size_t free = demand.free_but({promised.begin(), promised.end()});
    const size_t quota = quota_of(job), has = holds(job);
    promise(demand, job.runners().run().grow(std::min(free, quota - std::min(quota, has))));
    held_before(job, has);
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
