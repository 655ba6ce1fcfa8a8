// What the table of jobs keeps of the epochs that a job has lost.
#include <algorithm>

#include "daemon/jobs/job_entry.h"
#include "daemon/jobs/job_table.h"

namespace leat {

// The epoch is over; asked again when what was decided could not be written.
void JobTable::lost_epoch(Entry& entry, std::string cause) {
  const uint64_t epoch = entry.job.condition.epoch;
  for (const auto* known : {&entry.lost, &entry.job.history.last}) {
    for (const LostEpoch& each : *known) {
      if (each.epoch == epoch) return;
    }
  }
  LostEpoch lost;
  lost.number = entry.job.history.count + 1;
  lost.epoch = epoch;
  if (cause.size() > JobHistory::kMaxCause) cause.resize(JobHistory::kMaxCause);
  lost.cause = std::move(cause);
  lost.began_ms = entry.epoch_began_ms;
  lost.failed_ms = now_.wall_ms;
  if (entry.failure) {
    lost.culprit = entry.failure->culprit;
    lost.failed_ms = entry.failure->at_ms;
    lost.detected_after = entry.failure->detected_after;
    lost.stopped_at = static_cast<int64_t>(entry.progress.last().step);
  }
  entry.lost.push_back(std::move(lost));
}

// Those that wait for a first step, have it.
void JobTable::goes_on(Entry& entry, const ProgressReport& report) {
  if (report.step <= report.first_step || entry.failure) return;
  if (!entry.lost.empty() || !entry.next_lost.empty()) return;  // it is being written
  const auto take = [&](const LostEpoch& each) {
    if (each.recovered_after >= 0 || each.epoch >= entry.assembly_epoch) return;
    LostEpoch lost = each;
    lost.recovered_after = std::max<int64_t>(0, now_.wall_ms - lost.failed_ms);
    lost.went_on_from = static_cast<int64_t>(report.first_step);
    lost.source = report.from;
    entry.lost.push_back(std::move(lost));
  };
  for (const LostEpoch& each : entry.job.history.last) take(each);
  if (!entry.lost.empty()) advance(entry);
}

}  // namespace leat
