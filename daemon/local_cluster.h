// A master and its workers in one process, joined by local://. What `leat train` runs on, and what
// tests of the cluster run on: the same Master and Worker that daemons run.
#pragma once

#include <memory>
#include <vector>

#include "daemon/master.h"
#include "daemon/worker.h"

namespace leat {

class LocalCluster {
 public:
  // `workers` workers of `threads` compute threads each.
  LocalCluster(int workers, int threads) {
    std::vector<Worker*> borrowed;
    for (int w = 0; w < workers; ++w) {
      workers_.push_back(std::make_unique<Worker>(w, threads));
      borrowed.push_back(workers_.back().get());
    }
    master_ = std::make_unique<Master>(std::move(borrowed));
  }
  Master& master() { return *master_; }
  Worker& worker(int i) { return *workers_[static_cast<size_t>(i)]; }

 private:
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Master> master_;
};

}  // namespace leat
