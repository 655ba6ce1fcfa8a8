// One history of a cluster: clients submit jobs, faults befall everybody, and when they are over
// all has to come to its end. What must hold is checked as it goes; design: P1 to P4, and P7.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/daemon/sim/cluster.h"
#include "tests/daemon/sim/sim_master.h"

namespace leat::sim {

struct Outcome {
  std::string broken;              // what must hold and did not; "" if all did
  std::vector<std::string> trace;  // of what happened, if it was asked for
  uint64_t events = 0;
  Ms time = 0;  // of the cluster
  // What came about.
  uint64_t succeeded = 0, checkpoints = 0, resumed = 0, refused = 0, kept = 0, from_memory = 0;
  uint64_t taken_up = 0;  // runners that have outlived their master
  uint64_t yields = 0, saved_yields = 0, resized = 0;
};

// Equal arguments give equal outcomes.
Outcome simulate(uint64_t seed, Mutation mutation = Mutation::none, bool traces = false);

}  // namespace leat::sim
