// What a runner tells the master of one of its runs: RunReport of transport/cluster.capnp.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

struct RunReport {
  uint64_t run = 0;
  uint64_t turns = 0;       // finished since the run began
  uint64_t first_row = 0;   // the turn of rows[0]
  std::vector<Bytes> rows;  // one for each turn, where this partition fetches anything
  Status failure;
  bool derived = false;  // the failure came from elsewhere: somebody else knows the cause
  size_t bytes = 0;      // of the rows
};

}  // namespace leat
