// The run of one assembly of a job, as the master sees it.
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

// The state of a run, which daemon/master/job_thread.h keeps on a thread.
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
  bool ended = false;               // the master has ended it
  bool told = false;                // its outcome was reported
  std::vector<SimRunner*> runners;  // by task
  std::vector<EndPtr> ends;
  std::vector<std::pair<bool, uint64_t>> held;  // whether the variables are whole, and their step
  std::map<uint64_t, uint64_t> reached;         // by task
  uint64_t limit = 0;
  std::optional<std::pair<uint64_t, Weights>> writing;  // the checkpoint that is being written
  bool at_fence = false;
  bool steps = false;            // was extended
  bool yields = false;           // will yield at the next fence
  bool saves = false;            // will save its variables then
  std::vector<uint64_t> limits;  // the step that each runner is held at, by task
};

// The part of JobFinished that describes the weights.
inline std::string result_of(const Weights& weights) { return cat("weights-", weights.chain); }

}  // namespace leat::sim
