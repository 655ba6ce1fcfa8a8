// A copy of some of a job's variables as they are between two steps, which is read while steps go
// on. Its memory is kept for the next one: taking it costs a copy, and no new pages.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_part.h"
#include "devices/base/status.h"
#include "ops/state/resources.h"

namespace leat {

// Threads: any.
class VariableSnapshot {
 public:
  // In place of the one before; one that is being read stays as it is for its readers.
  // failed_precondition for a name that is not there. REQUIRES: no step is in flight.
  Status take(JobResources& resources, int64_t step, const std::vector<std::string>& names);
  // That of `step`; failed_precondition if there is none. No copy of a tensor may outlive what is
  // returned: their bytes are written again.
  Result<std::shared_ptr<const Variables>> read(int64_t step) const;

 private:
  struct Copy {
    int64_t step = -1;
    Variables values;
    std::mutex mutex;
    int readers = 0;
  };

  std::shared_ptr<Copy> writable();

  std::mutex taking_;  // held before the other one
  mutable std::mutex mutex_;
  std::shared_ptr<Copy> copy_;  // null before the first
};

}  // namespace leat
