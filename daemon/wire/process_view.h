// The process of a runner as its worker's system sees it.
#pragma once

#include <cstdint>

namespace leat {

struct ProcessView {
  uint32_t pid = 0;
  // Of /proc/PID/stat: R runs, S sleeps, D waits for the disk, T or t is stopped, Z has ended. '?'
  // if the file could not be read.
  char state = '?';
  uint64_t quiet_ms = 0;  // since its last pulse
  bool ending = false;    // it was asked to end, or was killed

  bool is_stopped() const { return state == 'T' || state == 't'; }
};

}  // namespace leat
