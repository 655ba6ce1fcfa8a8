// A cluster of real daemons with jobs on it that a test watches closely.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/client/cluster_client.h"
#include "daemon/spec/job.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"

namespace leat {

// Job files name the data set "data". Threads: one.
class JobScene {
 public:
  explicit JobScene(ProcessClusterOptions options);
  explicit JobScene(int workers) : JobScene(ProcessClusterOptions{.workers = workers}) {}

  // With a checkpoint every 50 steps; entries of `set` take the place of its own.
  Job job(uint64_t steps, std::vector<std::string> set = {}) const;
  // On three workers, an epoch of the data that does not end meanwhile.
  Job endless() const { return small_.with_endless_epoch(job(1'000'000)); }
  // The hash that one process leaves.
  std::string expected(const Job& job) { return small_.hash(job, "in-process"); }
  // The metrics that it left, or that the job has.
  std::string expected_metrics() const;
  std::string metrics(const std::string& id);

  std::string submit(Job job);
  // Watches the job until that is so, for four minutes at most.
  JobView await(const std::string& id, const std::function<bool(const JobView&)>& is);
  JobView await_step(const std::string& id, uint64_t step, uint64_t assembly);
  JobView await_end(const std::string& id);
  void cancel(const std::string& id);

  // The runner's process of each worker, by the worker's name.
  std::map<std::string, pid_t> runners(const JobView& view);
  ProcessCluster& cluster() { return cluster_; }
  ClusterClient& client() { return *client_; }

 private:
  const SmallJob small_;
  ProcessCluster cluster_;
  std::unique_ptr<ClusterClient> client_;
};

}  // namespace leat
