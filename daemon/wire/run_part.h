// One partition of a run, as the master and its runners name it.
#pragma once

#include <compare>
#include <cstdint>

namespace leat {

// Threads: a value.
struct RunPart {
  uint64_t run = 0;        // its number, which the master gives it
  uint32_t partition = 0;  // of the run's plan
  auto operator<=>(const RunPart&) const = default;
};

}  // namespace leat
