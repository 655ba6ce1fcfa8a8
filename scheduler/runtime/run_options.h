// The options of a run, and the description of a run's wait.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "devices/core/device.h"
#include "ops/graph/op.h"

namespace leat {

// The value of a timeline without which a run cannot go on. No timeline: it waits for nothing.
struct Awaited {
  Timeline* timeline = nullptr;
  uint64_t value = 0;
  // The instruction that waits, for people; kNone: what the device was given is not done yet.
  uint32_t instruction = kNone;
  // Other values that let the run go on if they come first; null if there are none.
  struct Other {
    Timeline* timeline = nullptr;
    uint64_t value = 0;
  };
  std::array<Other, 2> others;

  // Adds a wait to those that there are; at most three have room, and a fourth is left out.
  void add(Timeline& next, uint64_t until) {
    if (!timeline) {
      timeline = &next;
      value = until;
      return;
    }
    for (Other& other : others) {
      if (other.timeline) continue;
      other = {&next, until};
      return;
    }
  }
};

// Set once, before the run is made. All partitions of a run have the same options.
struct RunOptions {
  std::string name = "run";  // for people: errors and waits name it
  uint64_t seed = 0;         // of random ops, with the number of the step
  uint64_t first_step = 0;   // the job's step of the run's first turn
  bool profile = false;      // the run's program times its kernels: see profile_text()
  // Other runs decide when this one steps: it is allowed all steps, and nothing waits for its end.
  bool endless = false;
  bool trains = false;  // the job counts this run's steps
};

}  // namespace leat
