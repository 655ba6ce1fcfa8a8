// The tables of a cluster, its jobs and its members, behind one mutex: one thread changes them, and
// any thread looks at them.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/jobs/membership.h"
#include "daemon/status/status_source.h"
#include "devices/base/clock.h"

namespace leat {

// Threads: the functions that change a table: one; the rest: any.
class ClusterTables {
 public:
  // `clock` outlives it.
  ClusterTables(const JobTableLimits& jobs, const MembershipLimits& members,
                std::function<uint64_t()> random, const Clock& clock)
      : clock_(clock), table_(jobs, std::move(random)), members_(members) {}

  // Takes the jobs and the drained workers of the journal, whose generation is given. Returns the
  // actions to perform.
  JobActions restore(const std::vector<StoredJob>& jobs, std::set<std::string, std::less<>> drained,
                     uint64_t generation);
  // Hands the event to the table of jobs. Returns the actions to perform.
  JobActions handle(JobEvent event);
  // Calls `change` with the membership and the time. Returns its result.
  template <typename Change>
  auto change_members(Change change) {
    const std::lock_guard lock(mutex_);
    return change(members_, moment_of(clock_));
  }
  // The workers, if they have changed since the last call that returned some.
  std::optional<std::vector<WorkerView>> changed_members();

  // See JobTable::jobs().
  std::vector<JobView> jobs(uint64_t version = 0) const;
  Result<JobView> job(std::string_view id) const;
  // The id of the job; "" if no submit with that user's request id was accepted.
  std::string job_of_request(std::string_view user, std::string_view request_id) const;
  // Rises with every change of a job's view.
  uint64_t jobs_version() const;
  std::vector<NodeView> nodes() const;
  // Nothing if that incarnation is not a member.
  std::optional<WorkerInfo> member(const WorkerRef& worker) const;
  uint64_t membership_version() const;
  Status journal_status() const;

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  JobTable table_;
  Membership members_;
  uint64_t published_version_ = 0;  // of the membership, when changed_members() returned some
};

}  // namespace leat
