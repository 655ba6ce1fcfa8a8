// The reason to end a run.
#pragma once

#include <mutex>

#include "devices/base/status.h"

namespace leat {

// A run shares one between HostedRun, which sets it, and LiveRun, which aborts the run with it. It
// is set when the master aborts or releases the run and when the runner stops; a failure of the run
// itself is not in it.
// Ok until it is set; the first cause stays. Threads: any.
class EndCause {
 public:
  // REQUIRES: `cause` is an error.
  void set(const Status& cause) {
    const std::lock_guard lock(mutex_);
    if (cause_.ok()) cause_ = cause;
  }
  // The first cause; ok while none was set.
  Status get() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  mutable std::mutex mutex_;
  // Guarded by the mutex.
  Status cause_;
};

}  // namespace leat
