// A run of one assembly of a job, as the master has it.
//
// Threads: one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/sim/sim_master.h"

namespace leat::sim {

// What daemon/master/job_thread.h does on a thread.
struct SimMaster::Run {
  Run(SimMaster& master, RunJob of)
      : action(std::move(of)),
        request(master.cluster_.request_of(action.job)),
        number(master.cluster_.fresh()),
        checkpoints(*master.disk_, master.world_.clock(), master.folder(action.job),
                    {static_cast<int64_t>(request.tiny.every), {}, /*keep=*/2}) {}

  const RunJob action;
  Request& request;
  const uint64_t number;
  JobCheckpoints checkpoints;
  bool ended = false;               // told to
  bool told = false;                // what became of it
  std::vector<SimRunner*> runners;  // by task
  std::vector<EndPtr> ends;
  std::vector<std::pair<bool, uint64_t>> held;  // whether whole, and of which step
  std::map<uint64_t, uint64_t> reached;         // by task
  uint64_t limit = 0;
  std::optional<std::pair<uint64_t, Weights>> writing;  // a checkpoint
  bool at_fence = false;
  bool steps = false;            // was extended
  bool yields = false;           // at the next fence
  bool saves = false;            // what it has then
  std::vector<uint64_t> limits;  // that runners are held at, by task
};

// What JobFinished says of weights.
inline std::string result_of(const Weights& weights) { return cat("weights-", weights.chain); }

}  // namespace leat::sim
