// What a runner tells the master of one of its runs: RunReport of daemon/wire/cluster.capnp.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

struct RunReport {
  uint64_t run = 0;
  uint64_t turns = 0;      // finished since the run began
  uint64_t first_row = 0;  // the turn of rows[0]
  // One for each turn, where this partition fetches anything. The last may be a part of its row.
  std::vector<Bytes> rows;
  Status failure;
  bool derived = false;     // the failure came from elsewhere: somebody else knows the cause
  size_t bytes = 0;         // of the rows
  uint64_t row_offset = 0;  // where in its row rows[0] begins
};

}  // namespace leat
