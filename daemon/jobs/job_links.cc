// What the table of jobs makes of links that fail, and of workers that are silent: whose fault a
// failure is of which the run alone has told.
#include <algorithm>

#include "daemon/jobs/job_entry.h"
#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A worker that went for a link may come back at once, if no other is free. The next time it gets
// nothing of this job for a while: twice as long each time.
constexpr std::chrono::milliseconds kLeftOut{500}, kLongestLeftOut{60'000};
// Then it is forgotten.
constexpr std::chrono::minutes kForgotten{10};

}  // namespace

void JobTable::on(const WorkerSilent& event) {
  if (!leases_.has(event.worker)) return;
  if (event.silent) {
    silent_.insert(event.worker.name);
  } else {
    silent_.erase(event.worker.name);
  }
}

void JobTable::on(const LinkFailed& event) {
  Entry* entry = find_assembly(event.job, event.assembly);
  if (entry == nullptr || !entry->assembly.has_place(event.worker)) return;
  entry->links.add(event.worker.name, event.peer, event.fault, event.how, now_.steady);
}

// Its worker goes as one that is stuck does, and does not get the job back if another can have it.
void JobTable::on(const InputStarved& event) {
  Entry* entry = find_assembly(event.job, event.assembly);
  if (entry == nullptr || !entry->assembly.has_place(event.worker)) return;
  entry->assembly.suspect(event.worker);
  leave_out(*entry, event.worker.name, true);
  set_failure(*entry, event.worker, cat("worker '", event.worker.name, "' gets no input: "),
              event.how, false, event.waited);
  if (entry->failure && entry->failure->culprit == event.worker.name) entry->failure->stuck = true;
  if (entry->assembly.is_parted()) part(*entry, event.how);
  advance(*entry);
}

// Whoever is silent may be who is at fault. It is lost soon, or heard of again.
bool JobTable::may_be_silence(const Entry& entry) const {
  const Entry::Failure& failure = *entry.failure;
  if (!failure.how.empty() || !failure.may_pass) return false;
  if (now_.steady >= failure.seen + limits_.silence) return false;
  const auto workers = entry.assembly.workers();
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerRef& worker) {
    return silent_.contains(worker.name) && entry.assembly.has_place(worker);
  });
}

// What a link has shown of itself, and not the end of the process behind it: that needs no other
// side, nor does damage.
bool JobTable::knows_enough(const Entry& entry) const {
  const Entry::Failure& failure = *entry.failure;
  return failure.how.empty() && failure.may_pass && entry.links.are_at_fault(now_.steady);
}

// If it was a link, then who goes is settled here: all others keep what they have.
void JobTable::judge_links(Entry& entry) {
  Entry::Failure& failure = *entry.failure;
  if (!failure.how.empty() || !failure.may_pass) return;
  std::vector<std::string> names;
  for (const WorkerRef& worker : entry.assembly.workers()) {
    if (entry.assembly.has_place(worker)) names.push_back(worker.name);
  }
  const auto verdict = entry.links.judge(names, failure.of_run, now_.steady);
  if (!verdict) return;
  failure.keeps = true;
  failure.crash = false;
  // A job that has been at work waits for the network; one that never was may never be.
  failure.counts = entry.stepped || failure.step == 0;
  failure.culprit = join(verdict->go, ", ");
  failure.text = cat(verdict->text, "; ", failure.of_run);
  for (const WorkerRef& worker : entry.assembly.workers()) {
    if (std::find(verdict->go.begin(), verdict->go.end(), worker.name) == verdict->go.end())
      continue;
    entry.assembly.suspect(worker);
    leave_out(entry, worker.name);
  }
}

void JobTable::leave_out(Entry& entry, const std::string& worker, bool for_its_own) {
  const auto [at, first] = entry.left_out.try_emplace(worker);
  Entry::LeftOut& left = at->second;
  const bool again = !first && now_.steady < left.until + kForgotten;
  left.time = !again ? Clock::Steady::duration(0)
              : left.time == left.time.zero()
                  ? kLeftOut
                  : std::min<Clock::Steady::duration>(2 * left.time, kLongestLeftOut);
  left.until = now_.steady + left.time;
  left.for_its_own = for_its_own;
}

// Who goes on without the others has what they lack; if nobody does, there is nothing to spare, and
// only who did not get his own work done is better passed over.
std::vector<std::string> JobTable::left_out(const Entry& entry, bool all) const {
  std::vector<std::string> names = unfit(entry);
  const bool some_kept = entry.runs || entry.assembly.kept() > 0;
  for (const auto& [name, left] : entry.left_out) {
    if (!some_kept && !(all && left.for_its_own)) continue;
    if (left.until > now_.steady || (all && left.until + kForgotten > now_.steady))
      names.push_back(name);
  }
  return names;
}

}  // namespace leat
