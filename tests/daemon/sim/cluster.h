// The simulated cluster: who is in it, the jobs, and what everybody's deeds are measured by.
//
// Threads: one.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/daemon/sim/network.h"
#include "tests/daemon/sim/sim_worker.h"
#include "tests/daemon/sim/tiny_job.h"

namespace leat::sim {

class SimMaster;

// A fault in the software, as if a check or a sync were missing. Each is to be found.
enum class Mutation {
  none,
  assembly_unchecked,         // news of a job's old runners count as those of its newest
  acknowledged_unwritten,  // a record counts as written before it is on disk
  request_unknown,         // a repeated request is not recognized
  lease_kept,              // the end of a stopped runner is not heard
  gone_too_soon,           // a stopped runner counts as gone while it still runs
  runners_outlive_lease,   // a worker that the master has lost leaves its runners alone
  torn_weights_used,       // variables that are between two steps are gone on from
  checksum_unchecked,      // what was damaged on its way is applied
  part_unsynced,           // of a checkpoint, before the manifest names it
  manifest_unsynced,
  folder_unsynced,  // after the rename
  not_renamed,      // written under its own name, file by file
  resumed_behind,   // the step that follows the checkpoint is passed over
};

struct Request {
  std::string id;
  TinyJob tiny;
  std::vector<Weights> twin;
  uint32_t workers = 1;
  uint32_t least = 0;             // elastic: as many at least
  std::string job;                // as acknowledged
  uint64_t committed = 0;         // the newest checkpoint that was said to be on disk
  std::set<std::string> damaged;  // checkpoints, by name
  bool cancelled = false;         // it was asked for
};

class Cluster {
 public:
  static constexpr int kMaster = 0;  // its machine; the clients' too

  Cluster(uint64_t seed, Mutation mutation, bool traces);
  ~Cluster();

  World world;
  Network network{world};
  const Mutation mutation;
  const bool has_real_journal;  // slower
  std::vector<std::unique_ptr<SimWorker>> workers;
  std::unique_ptr<SimMaster> master;
  std::vector<Request> requests;

  // The job "tiny3-a1f0" is that of requests[3].
  Request& request_of(const std::string& job);
  uint64_t fresh() { return ++fresh_; }

  // Whoever has weights after so many steps says so: they must be the twin's.
  void check_weights(const Request& request, uint64_t step, const Weights& weights,
                     const std::string& who);

 private:
  uint64_t fresh_ = 1000;
};

}  // namespace leat::sim
