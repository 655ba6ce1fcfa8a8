// The status of a master and of its jobs and workers, as the status page and the commands show it.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "daemon/master/master_parts.h"
#include "daemon/status/status_source.h"

namespace leat {

// A view is not of one moment: each part of the master is read under its own lock.
// Threads: any, several at once.
class MasterStatus final : public StatusSource {
 public:
  // `parts` outlives it.
  explicit MasterStatus(const MasterParts& parts);

  // The addresses of a master that listens, as cluster() shows them.
  void set_rpc_address(const std::string& address);
  void set_http_address(const std::string& address);

  // For people: a line for each job that has not ended and for each worker.
  std::string dump() const;

  ClusterView cluster() const override;
  std::vector<JobView> jobs() const override;
  uint64_t jobs_version() const override;
  std::vector<JobView> changed_jobs(uint64_t version) const override;
  Result<JobView> job(std::string_view id) const override;
  std::vector<NodeView> nodes() const override;
  Result<LogPage> log(std::string_view id, uint64_t from, size_t most) const override;
  CurvesView curves(const std::string& id) const override;
  Status ready() const override;
  std::vector<Metric> metrics() const override;

 private:
  // The failure of the last write, or that of the journal's opening while nothing was written
  // since.
  Status journal_status() const;

  const MasterParts& parts_;
  const int64_t started_ms_;
  mutable std::mutex mutex_;
  std::string rpc_address_;
  std::string http_address_;
};

}  // namespace leat
