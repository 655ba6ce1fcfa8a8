// How far a run on a runner is, and what it does there, as the runner tells its master.
#pragma once

#include <cstdint>

#include "scheduler/runtime/run_sight.h"

namespace leat {

struct RunStanding {
  RunSight sight;
  uint64_t unchanged_ms = 0;  // since a turn was finished or a tile was done
  int64_t now_ns = 0;         // the runner's steady clock
};

}  // namespace leat
