// The state of a run at one moment, for those who look for the reason why it does not go on.
#pragma once

#include <cstdint>

#include "ops/graph/op.h"

namespace leat {

struct RunSight {
  enum class State : uint8_t {
    idle,      // all allowed steps are done, or the run has failed
    working,   // a thread advances it, or is about to; or its device does what it was given
    receives,  // waits for the value of the instruction, a receive, from another partition
    sends,     // waits for room for the value of the instruction, a send, at its reader
    blocked,   // waits for something else, which the kernel of the instruction needs: a queue
  };
  State state = State::idle;
  // The one that it waits for; of a working run the kernel that runs. kNone: none in particular.
  uint32_t instruction = kNone;
  uint64_t turn = 0;      // where the run stands; turns count from its first step
  uint64_t finished = 0;  // turns
  uint64_t allowed = 0;   // turns
  uint64_t tiles = 0;     // as RunWork::tiles
};

}  // namespace leat
