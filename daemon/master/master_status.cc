#include "daemon/master/master_status.h"

#include "daemon/audit/audit_log.h"
#include "daemon/base/version.h"
#include "daemon/master/job_curves.h"
#include "daemon/master/job_logs.h"
#include "daemon/master/journal_thread.h"
#include "devices/base/text.h"
#include "transport/rpc/server.h"

namespace leat {

MasterStatus::MasterStatus(const MasterParts& parts)
    : parts_(parts), started_ms_(moment_of(parts.clock).wall_ms) {}

void MasterStatus::set_rpc_address(const std::string& address) {
  const std::lock_guard lock(mutex_);
  rpc_address_ = address;
}

void MasterStatus::set_http_address(const std::string& address) {
  const std::lock_guard lock(mutex_);
  http_address_ = address;
}

ClusterView MasterStatus::cluster() const {
  ClusterView view;
  view.name = parts_.config.cluster;
  view.id = parts_.journal->cluster_id();
  view.version = leat_version();
  view.generation = parts_.journal->generation();
  // The view is not of one moment: each part is read under its own lock.
  view.membership = parts_.state->tables().membership_version();
  view.started_ms = started_ms_;
  view.now_ms = moment_of(parts_.clock).wall_ms;
  view.journal = journal_status();
  const std::lock_guard lock(mutex_);
  view.rpc_address = rpc_address_;
  view.http_address = http_address_;
  return view;
}

std::vector<JobView> MasterStatus::jobs() const { return parts_.state->tables().jobs(); }
uint64_t MasterStatus::jobs_version() const { return parts_.state->tables().jobs_version(); }
std::vector<JobView> MasterStatus::changed_jobs(uint64_t version) const {
  return parts_.state->tables().jobs(version);
}
Result<JobView> MasterStatus::job(std::string_view id) const {
  return parts_.state->tables().job(id);
}
std::vector<NodeView> MasterStatus::nodes() const { return parts_.state->tables().nodes(); }

Result<LogPage> MasterStatus::log(std::string_view id, uint64_t from, size_t most) const {
  // The table takes a prefix of an id; the folder of the log has all of it.
  LEAT_ASSIGN_OR_RETURN(const JobView view, job(id));
  return parts_.logs->page(view.id, from, most);
}

CurvesView MasterStatus::curves(const std::string& id) const { return parts_.curves->of(id); }

// The failure of opening the journal counts until the first write has succeeded.
Status MasterStatus::journal_status() const {
  const Status status = parts_.state->tables().journal_status();
  return status.ok() && !parts_.wrote ? parts_.cannot_write : status;
}

Status MasterStatus::ready() const {
  // A master whose journal or audit log cannot be written takes no jobs, so it is not ready.
  const Status journal = journal_status();
  if (!journal.ok()) return Status(journal.code(), "the journal: " + journal.message());
  const Status audit = parts_.audit->status();
  return audit.ok() ? audit : Status(audit.code(), "the audit log: " + audit.message());
}

std::vector<Metric> MasterStatus::metrics() const {
  // Callers that were turned away for any reason count as refused.
  const RpcServerCounts counts = parts_.server->counts();
  const auto one = [](uint64_t value) {
    return std::vector<MetricSample>{{{}, static_cast<double>(value)}};
  };
  return {{"leat_audit_ok", "1 if the last write of the audit log succeeded", MetricKind::gauge,
           one(parts_.audit->status().ok() ? 1 : 0)},
          {"leat_audit_entries_total", "Entries of the audit log that are on the disk",
           MetricKind::counter, one(parts_.audit->head().sequence)},
          {"leat_rpc_connections", "Control connections that are open", MetricKind::gauge,
           one(counts.live)},
          {"leat_rpc_accepted_total", "Control connections that were let in", MetricKind::counter,
           one(counts.accepted)},
          {"leat_rpc_refused_total", "Control connections that were refused", MetricKind::counter,
           one(counts.refused + counts.over_rate + counts.no_descriptor)},
          {"leat_rpc_dropped_total", "Control connections ended for what the peer did",
           MetricKind::counter, one(counts.dropped)}};
}

std::string MasterStatus::dump() const {
  // A person reads this to find what hangs: first the jobs that go on, then the workers.
  std::string text;
  for (const JobView& job : jobs()) {
    const JobCondition& now = job.condition;
    if (has_ended(now.state)) continue;
    text += cat("job ", job.id, ": ", name_of(now.state), ", step ", job.progress.last.step,
                now.reason.empty() ? "" : ", ", now.reason, "\n");
  }
  for (const NodeView& node : nodes()) {
    text += cat("worker ", node.worker.info.worker.name, ": ", name_of(node.worker.state),
                ", heard of ", node.worker.silent.count(), " ms ago",
                node.job.empty() ? "" : ", job ", node.job, "\n");
  }
  return text;
}

}  // namespace leat
