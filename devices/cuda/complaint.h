// A kernel's report of an operand that it may not use.
#pragma once

#include <cstdint>

#include "devices/base/inline.h"

namespace leat::cuda {

// Written by a kernel when an operand holds a value that it may not hold: a label out of range, a
// divisor of zero. It lies in memory that host and device share. Of several threads that write, any
// may win.
struct Complaint {
  uint64_t place = 0;    // where in the operand, plus 1; 0: there is no complaint
  int64_t received = 0;  // what it holds there

  LEAT_INLINE void write(int64_t at, int64_t value) {
    received = value;
    place = static_cast<uint64_t>(at) + 1;
  }
};

}  // namespace leat::cuda
