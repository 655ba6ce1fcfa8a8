// A runner's report of one of its runs to the master: RunReport of daemon/wire/cluster.capnp.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/wire/run_part.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

struct RunReport {
  RunPart part;
  uint64_t turns = 0;      // finished since the run began
  uint64_t first_row = 0;  // the turn of rows[0]
  // One for each turn, if this partition fetches anything. The last may be a part of its row.
  std::vector<Bytes> rows;
  Status failure;
  bool derived = false;        // the failure is the consequence of a peer's failure
  size_t bytes = 0;            // of all rows
  uint64_t row_offset = 0;     // the byte of its row at which rows[0] begins
  uint64_t input_wait_us = 0;  // RunWork::input_wait, in microseconds
  uint64_t steps_ahead = 0;    // as RunWork::steps_ahead
};

}  // namespace leat
