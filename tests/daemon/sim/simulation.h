// One history of a cluster: clients submit jobs, faults happen to all processes, and after the
// faults all jobs must end. The simulation checks its invariants, P1 to P4 and P7 of the design, as
// it goes.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/daemon/sim/cluster.h"
#include "tests/daemon/sim/sim_master.h"

namespace leat::sim {

// The result of a simulation.
struct Outcome {
  std::string broken;              // the invariant that was broken; "" if none
  std::vector<std::string> trace;  // the events, if they were asked for
  uint64_t events = 0;
  Ms time = 0;  // virtual time of the cluster
  // Counts of events, so that tests can see that they happened.
  uint64_t succeeded = 0, checkpoints = 0, resumed = 0, refused = 0, kept = 0, from_memory = 0;
  uint64_t taken_up = 0;  // runners that have outlived their master
  uint64_t yields = 0, saved_yields = 0, resized = 0;
  uint64_t paused = 0, made_way = 0;  // jobs, by people and for a higher priority
};

// Equal arguments give equal outcomes.
Outcome simulate(uint64_t seed, Mutation mutation = Mutation::none, bool traces = false);

}  // namespace leat::sim
