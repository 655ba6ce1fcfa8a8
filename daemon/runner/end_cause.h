// The reason to end a run.
#pragma once

#include <mutex>

#include "devices/base/status.h"

namespace leat {

// Ok until it is set; the first cause stays. Threads: any.
class EndCause {
 public:
  void set(const Status& cause) {
    const std::lock_guard lock(mutex_);
    if (cause_.ok()) cause_ = cause;
  }
  Status get() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  mutable std::mutex mutex_;
  Status cause_;
};

}  // namespace leat
