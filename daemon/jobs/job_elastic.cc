// How a job leaves workers that drain, and takes in more: its run comes to a fence, its assembly ends
// there, and the next one goes on from what the runners have in memory.
#include <algorithm>

#include "daemon/jobs/job_entry.h"
#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"

namespace leat {

// True if its assembly, which does not run yet, is to be given up for it.
bool JobTable::leaves_workers(Entry& entry) {
  if (!entry.assembly.is_going() || !entry.may_move()) return false;
  std::vector<std::string> leaving;
  const std::vector<WorkerRef> workers = entry.assembly.workers();
  for (const WorkerRef& worker : workers) {
    if (leases_.has(worker) && leases_.is_draining(worker.name)) leaving.push_back(worker.name);
  }
  if (leaving.empty()) return false;
  // Who alone holds the job in memory takes part in the assembly, and leaves at a fence of that one.
  const bool waits = !entry.runs && std::none_of(workers.begin(), workers.end(),
                                                 [&](const auto& w) { return lets_go(entry, w); });
  if (waits) return false;
  std::string cause = leaving.size() == 1
                          ? cat("worker '", leaving.front(), "' is draining")
                          : cat("workers '", join(leaving, "', '"), "' are draining");
  if (!entry.runs) {
    gives_up(entry, std::move(cause), leaving.front(), entry.progress.last().step);
    return true;
  }
  // Whoever stays keeps the job in memory, unless he has to wait for others.
  const size_t stay = workers.size() - leaving.size();
  const bool saves = stay == 0 || stay + leases_.free_but(left_out(entry)) < entry.least();
  ask_to_yield(entry, std::move(cause), leaving.front(), saves);
  return false;
}

// Whether a worker that drains may be rid of the job between two assemblies: what the job has come to
// is not lost with it.
bool JobTable::lets_go(const Entry& entry, const WorkerRef& worker) const {
  if (!leases_.has(worker) || !leases_.is_draining(worker.name)) return false;
  if (entry.saved || !entry.holders.contains(worker.name)) return true;
  if (entry.in_parts) return false;
  const std::vector<WorkerRef> workers = entry.assembly.workers();
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerRef& other) {
    return entry.assembly.will_be_kept(other) && entry.holders.contains(other.name) &&
           !leases_.is_draining(other.name);
  });
}

// All that take part in the assembly have the same.
void JobTable::hold(Entry& entry, bool saved) {
  entry.holders.clear();
  for (const WorkerRef& worker : entry.assembly.workers()) entry.holders.insert(worker.name);
  entry.saved = saved;
}

// Once; and once more if it is to be saved now and was not before.
void JobTable::ask_to_yield(Entry& entry, std::string cause, std::string culprit, bool saves) {
  const bool is_news = !entry.yield || (saves && !entry.yield->saves);
  const bool for_a_drain = entry.yield && !entry.yield->culprit.empty();
  if (!entry.yield) entry.yield = Entry::Yield();
  if (!for_a_drain) {
    entry.yield->cause = std::move(cause);
    entry.yield->culprit = std::move(culprit);
  }
  if (!is_news) return;
  entry.yield->saves = saves;
  actions_.push_back(YieldRun{entry.job.id, entry.assembly.assembly(), saves, entry.yield->cause});
}

void JobTable::on(const RunYielded& event) {
  Entry* entry = find_assembly(event.job, event.assembly);
  if (entry == nullptr || !entry->runs || entry->failure) return;
  Entry::Yield why = entry->yield.value_or(Entry::Yield{"it came to a fence", "", false});
  if (!entry->missing.empty() && why.culprit.empty()) {
    why.culprit = entry->missing.front().worker;
    why.cause = cat(entry->missing.front().text, "; ", why.cause);
  }
  hold(*entry, event.saved);
  gives_up(*entry, why.cause, why.culprit, event.step);
  advance(*entry);
}

// The assembly is over, and nothing has gone wrong.
void JobTable::gives_up(Entry& entry, std::string cause, std::string culprit, uint64_t step) {
  Entry::Failure failure;
  failure.text = std::move(cause);
  failure.culprit = std::move(culprit);
  failure.at_ms = now_.wall_ms;
  failure.may_pass = failure.keeps = true;
  failure.counts = false;
  failure.step = step;
  entry.failure = std::move(failure);
}

// True if the job's run does not need it: what it cannot do then it says.
bool JobTable::goes_on_without(Entry& entry, const WorkerRef& worker, std::string text) {
  if (!entry.runs || entry.state() != JobState::running || !entry.assembly.is_going()) return false;
  if (entry.spared_from == 0 || entry.failure || !entry.may_move()) return false;
  if (!entry.assembly.has_place(worker)) return false;
  const std::vector<WorkerRef> workers = entry.assembly.workers();
  const auto at = std::find(workers.begin(), workers.end(), worker);
  if (at - workers.begin() < static_cast<ptrdiff_t>(entry.spared_from)) return false;
  entry.missing.push_back({worker.name, std::move(text)});
  touch(entry);
  return true;
}

// Who has fewer workers than it may have gets those that nobody waits for.
void JobTable::grow() {
  if (queue_changed_ || head_ != 0 || held_until_) return;
  size_t free = leases_.free();
  for (const uint64_t number : assembled_) {
    Entry& entry = *entries_[number];
    if (free == 0) return;
    const bool replaces = may_replace(entry);
    if (!replaces && !may_grow(entry)) continue;
    const size_t had = entry.assembly.size() - entry.missing.size();
    const size_t fit = std::min(free, leases_.free_but(unfit(entry)));
    if (fit == 0) continue;
    const size_t gets = std::min(fit, entry.job.num_workers - had);
    free -= gets;
    ask_to_yield(entry,
                 cat("takes in ", gets, gets == 1 ? " worker" : " workers", ": it had ", had,
                     " of ", entry.job.num_workers),
                 "", replaces);
  }
}

// To come to a fence, for more workers.
bool JobTable::may_be_asked(const Entry& entry) const {
  if (!entry.may_move() || !entry.stepped) return false;
  if (!entry.runs || entry.yield || entry.write != Entry::Write::none) return false;
  if (entry.failure || entry.finished || entry.cancel_asked) return false;
  return now_.steady >= entry.ran_at + limits_.grow_after;
}

// For all that it lacks at once, unless it is elastic.
bool JobTable::may_replace(const Entry& entry) const {
  if (entry.missing.empty() || !may_be_asked(entry)) return false;
  const size_t left = entry.assembly.size() - entry.missing.size();
  return left + leases_.free_but(unfit(entry)) >= entry.least();
}

bool JobTable::may_grow(const Entry& entry) const {
  if (entry.job.min_workers == 0 || !may_be_asked(entry)) return false;
  if (entry.assembly.size() >= entry.job.num_workers) return false;
  for (const auto& [name, left] : entry.left_out) {
    if (left.until > now_.steady) return false;  // one that is free may be one of those
  }
  const double eta = entry.progress.progress().eta_seconds;  // no number where steps are slow
  return !(eta < std::chrono::duration<double>(limits_.grow_after).count());
}

}  // namespace leat
