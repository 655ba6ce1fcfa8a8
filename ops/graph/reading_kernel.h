// Kernels that read rows of a data set, as far as others look at them.
#pragma once

#include <cstdint>

namespace leat {

// The second base of such a Kernel.
class ReadingKernel {
 public:
  // How many steps ahead it asks for rows now: see ops/data/read_ahead.h. Threads: any.
  virtual int64_t steps_ahead() const = 0;

 protected:
  ~ReadingKernel() = default;
};

}  // namespace leat
