#include "daemon/jobs/ended_jobs.h"

#include <utility>

namespace leat {

void EndedList::add(uint64_t job, int64_t ended_ms) {
  // The key only grows, so the map is in the order of the ends although job numbers are not.
  ended_[++last_] = {job, ended_ms, 0};
  ids_[job] = last_;
}

void EndedList::weigh(uint64_t job, uint64_t bytes) {
  const auto found = ids_.find(job);
  if (found == ids_.end()) return;
  Ended& ended = ended_.at(found->second);
  // The difference may be negative: unsigned arithmetic wraps, and the sum is right again.
  bytes_ += bytes - ended.bytes;
  ended.bytes = bytes;
}

void EndedList::drop(const Retention& retention, int64_t now_ms,
                     const std::function<bool(uint64_t)>& forget) const {
  // Jobs that a user asked to forget go whatever the limits say. A job whose write fails stays in
  // the list, and the next call tries it again.
  for (const auto& [job, tickets] : asked_) (void)forget(job);
  EndedJobs left{static_cast<int64_t>(ended_.size()), bytes_, {}};
  for (const auto& [order, ended] : ended_) {
    left.oldest = std::chrono::milliseconds(now_ms - ended.ended_ms);
    // The list is ascending by the end, so the first job that may stay ends the search.
    if (!forgets_oldest(retention, left)) return;
    if (!forget(ended.job)) continue;
    --left.count;
    left.bytes -= ended.bytes;
  }
}

std::vector<uint64_t> EndedList::answered(uint64_t job) {
  // The tickets are taken out at once: each gets exactly one answer, also if the write failed.
  const auto asked = asked_.extract(job);
  return asked.empty() ? std::vector<uint64_t>() : std::move(asked.mapped());
}

void EndedList::erase(uint64_t job) {
  const auto found = ids_.find(job);
  if (found == ids_.end()) return;
  const auto ended = ended_.find(found->second);
  bytes_ -= ended->second.bytes;
  ended_.erase(ended);
  ids_.erase(found);
}

}  // namespace leat
