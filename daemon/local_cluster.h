// A master and its workers in one process, joined by local://. What `leat train` runs on, and what
// tests of the cluster run on: the same Master and Worker that daemons run.
#pragma once

#include <memory>
#include <vector>

#include "daemon/cluster.h"
#include "daemon/local_worker.h"
#include "daemon/master.h"
#include "daemon/worker.h"

namespace leat {

class LocalCluster final : public Cluster {
 public:
  // `workers` workers of `threads` compute threads each. Data sets are looked at through `files`,
  // which outlives the cluster.
  LocalCluster(int workers, int threads, Files& files = real_files()) {
    std::vector<WorkerLink*> borrowed;
    for (int w = 0; w < workers; ++w) {
      workers_.push_back(std::make_unique<Worker>(w, threads));
      links_.push_back(std::make_unique<LocalWorker>(*workers_.back(), files));
      borrowed.push_back(links_.back().get());
    }
    master_ = std::make_unique<Master>(std::move(borrowed));
  }
  Master& master() override { return *master_; }
  Worker& worker(int i) { return *workers_[static_cast<size_t>(i)]; }

 private:
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<LocalWorker>> links_;
  std::unique_ptr<Master> master_;
};

}  // namespace leat
