// The simulated cluster: its workers, its master and the jobs that clients submit, and the checks
// of the weights that they produce.
//
// Threads: one.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/spec/queue_terms.h"
#include "tests/daemon/sim/network.h"
#include "tests/daemon/sim/sim_worker.h"
#include "tests/daemon/sim/tiny_job.h"

namespace leat::sim {

class SimMaster;

// A bug that a simulation plants, as if a check or a sync were missing. The tests must find each.
enum class Mutation {
  none,
  assembly_unchecked,      // news of a job's old runners counts as news of its newest
  acknowledged_unwritten,  // a record counts as written before it is on disk
  request_unknown,         // a repeated request is not recognized
  lease_kept,              // the end of a stopped runner is not heard
  gone_too_soon,           // a stopped runner counts as gone while it still runs
  runners_outlive_lease,   // a worker that the master has lost keeps its runners
  torn_weights_used,       // training resumes from variables that are between two steps
  checksum_unchecked,      // values that were damaged on the wire are applied
  part_unsynced,           // a checkpoint's part, before the manifest names it
  manifest_unsynced,
  folder_unsynced,  // after the rename
  not_renamed,      // written under its own name, file by file
  resumed_behind,   // the step after the checkpoint is skipped
};

// A client's submit of a job, and what is known of the job.
struct Request {
  std::string id;
  TinyJob tiny;
  std::vector<Weights> twin;
  uint32_t workers = 1;
  uint32_t least = 0;             // elastic: the fewest workers
  QueueTerms terms;
  std::string job;                // the name that the master acknowledged
  uint64_t committed = 0;         // the newest checkpoint that was reported as on disk
  std::set<std::string> damaged;  // names of checkpoints
  bool cancelled = false;         // the client asked for it
};

// Owns all parts of a simulation. They refer to each other through it.
class Cluster {
 public:
  static constexpr int kMaster = 0;  // the machine of the master and of the clients

  Cluster(uint64_t seed, Mutation mutation, bool traces);
  ~Cluster();

  World world;
  Network network{world};
  const Mutation mutation;
  const bool has_real_journal;  // slower than the model of it
  std::vector<std::unique_ptr<SimWorker>> workers;
  std::unique_ptr<SimMaster> master;
  std::vector<Request> requests;

  // The request of a job. The job "tiny3-a1f0" belongs to requests[3].
  Request& request_of(const std::string& job);
  // A number that was never used before in this simulation.
  uint64_t fresh() { return ++fresh_; }

  // Checks weights after `step` steps against the twin's, which trained without faults. `process`
  // has them, and is for the report of a difference.
  void check_weights(const Request& request, uint64_t step, const Weights& weights,
                     const std::string& process);

 private:
  uint64_t fresh_ = 1000;
};

}  // namespace leat::sim
