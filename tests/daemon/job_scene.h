// A cluster of real daemons with jobs that a test watches closely.
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

// Owns the cluster and the data. Its job files name the data set "data". Threads: one.
class JobScene {
 public:
  // Without a graph it is kTinyCnn of tests/small_models.h.
  explicit JobScene(ProcessClusterOptions options, const std::string& graph = "");
  explicit JobScene(int workers) : JobScene(ProcessClusterOptions{.workers = workers}) {}

  // Returns a job with a checkpoint every 50 steps. Entries of `set` replace its own.
  Job job(uint64_t steps, std::vector<std::string> set = {}) const;
  // Returns a job on three workers whose first epoch is longer than any test.
  Job endless(std::vector<std::string> set = {}) const {
    return small_.with_endless_epoch(job(1'000'000, std::move(set)));
  }
  // Trains the job in one process, and returns the hash of its weights.
  std::string expected(const Job& job) { return small_.hash(job, "in-process"); }
  // The metrics of that training, and those of a job on the cluster.
  std::string expected_metrics() const;
  std::string metrics(const std::string& id);

  std::string submit(Job job, std::vector<std::string> chaos = {});
  // Watches the job until `is` holds, for four minutes at most.
  JobView await(const std::string& id, const std::function<bool(const JobView&)>& is);
  JobView await_step(const std::string& id, uint64_t step, uint64_t assembly);
  JobView await_end(const std::string& id);
  void cancel(const std::string& id);

  // Returns the process of each runner of the job, by its worker's name.
  std::map<std::string, pid_t> runners(const JobView& view);
  // A file of the data set.
  std::string data_path(const std::string& name) const { return small_.path(name); }
  ProcessCluster& cluster() { return cluster_; }
  ClusterClient& client() { return *client_; }

 private:
  const SmallJob small_;
  ProcessCluster cluster_;
  std::unique_ptr<ClusterClient> client_;
};

}  // namespace leat
