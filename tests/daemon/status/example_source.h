// A cluster to show.
#pragma once

#include <string>
#include <vector>

#include "daemon/status/status_source.h"

namespace leat {

// A job that runs on two workers, one that has ended and one that waits; a worker that is lost.
class ExampleSource : public StatusSource {
 public:
  ExampleSource();

  ClusterView cluster() const override { return cluster_; }
  uint64_t jobs_version() const override;
  std::vector<JobView> changed_jobs(uint64_t version) const override;
  std::vector<JobView> jobs() const override { return jobs_; }
  Result<JobView> job(std::string_view id) const override;
  std::vector<NodeView> nodes() const override { return nodes_; }
  Result<LogPage> log(std::string_view id, uint64_t from, size_t most) const override;
  Status ready() const override { return ready_; }
  std::vector<Metric> metrics() const override { return metrics_; }

  ClusterView cluster_;
  std::vector<JobView> jobs_;
  std::vector<NodeView> nodes_;
  std::vector<LogLine> lines_;  // of every job
  bool complete_ = false;       // no line follows
  Status ready_;
  std::vector<Metric> metrics_;
};

}  // namespace leat
