// What the table of jobs keeps of the assemblies that a job has lost.
#include <algorithm>

#include "daemon/jobs/job_entry.h"
#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"

namespace leat {

// The assembly is over; asked again when what was decided could not be written.
void JobTable::lost_assembly(Entry& entry, std::string cause) {
  const uint64_t assembly = entry.job.condition.assembly;
  for (const auto* known : {&entry.lost, &entry.job.history.last}) {
    for (const LostAssembly& each : *known) {
      if (each.assembly == assembly) return;
    }
  }
  LostAssembly lost;
  lost.number = entry.job.history.count + 1;
  lost.assembly = assembly;
  if (cause.size() > JobHistory::kMaxCause) cause.resize(JobHistory::kMaxCause);
  lost.cause = std::move(cause);
  lost.began_ms = entry.assembly_began_ms;
  lost.failed_ms = now_.wall_ms;
  if (entry.failure) {
    lost.culprit = entry.failure->culprit;
    lost.failed_ms = entry.failure->at_ms;
    lost.detected_after = entry.failure->detected_after;
    lost.stopped_at =
        static_cast<int64_t>(std::max(entry.progress.last().step, entry.failure->step));
  }
  if (!entry.job.fired.empty() && entry.job.fired.back().assembly == assembly) {
    lost.fault = entry.job.fired.back().fault;
    if (entry.failure) entry.failure->crash = false;  // what was asked for is no crash of the job
    const int64_t came_ms = std::max(entry.job.fired.back().at_ms, entry.fault_came_ms);
    lost.detected_after = std::max<int64_t>(0, lost.failed_ms - came_ms);
  }
  entry.lost.push_back(std::move(lost));
}

// Those that wait for a first step, have it.
void JobTable::goes_on(Entry& entry, const ProgressReport& report) {
  if (report.step <= report.first_step || entry.failure) return;
  if (!entry.lost.empty() || !entry.next_lost.empty()) return;  // it is being written
  const auto take = [&](const LostAssembly& each) {
    if (each.recovered_after >= 0 || each.assembly >= entry.assembly.assembly()) return;
    LostAssembly lost = each;
    lost.recovered_after = std::max<int64_t>(0, now_.wall_ms - lost.failed_ms);
    lost.went_on_from = static_cast<int64_t>(report.first_step);
    lost.source = report.from;
    entry.lost.push_back(std::move(lost));
  };
  for (const LostAssembly& each : entry.job.history.last) take(each);
  if (!entry.lost.empty()) advance(entry);
}

// Written before it comes, so that no assembly meets it again.
void JobTable::on(FaultAsked event) {
  const auto refuse = [&](std::string why) {
    actions_.push_back(
        Answer{event.ticket, failed_precondition(cat("fault '", event.fault, "': ", why))});
  };
  Entry* entry = find_assembly(event.job, event.assembly);
  if (entry == nullptr || !entry->assembly.is_going() || has_ended(entry->state()) ||
      entry->finished || entry->failure) {
    return refuse("the job's assembly is over");
  }
  const auto same = [&](const auto& each) { return each.index == event.index; };
  if (std::any_of(entry->job.fired.begin(), entry->job.fired.end(), same) ||
      std::any_of(entry->next_fired.begin(), entry->next_fired.end(), same) ||
      std::any_of(entry->asked.begin(), entry->asked.end(), same)) {
    return refuse("it has come before");
  }
  entry->asked.push_back(std::move(event));
  advance(*entry);
}

// What was in the air with the write is in the journal now, or is still to be written.
void JobTable::noted(Entry& entry, const Status& status) {
  std::vector<LostAssembly> lost = std::exchange(entry.next_lost, {});
  if (status.ok()) {
    for (const LostAssembly& each : lost) entry.job.history.put(each);
  } else {
    entry.lost.insert(entry.lost.begin(), lost.begin(), lost.end());
  }
  for (FiredFault& each : std::exchange(entry.next_fired, {})) {
    if (!status.ok()) continue;
    entry.job.fired.push_back(std::move(each));
    entry.fault_came_ms = now_.wall_ms;  // its runner hears now that it may
  }
  for (const uint64_t ticket : std::exchange(entry.fire_tickets, {})) {
    if (status.ok()) {
      actions_.push_back(Answer{ticket, view(entry)});
    } else {
      actions_.push_back(Answer{ticket, status});
    }
  }
}

}  // namespace leat
