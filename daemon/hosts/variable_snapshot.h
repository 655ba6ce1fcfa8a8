// A copy of some of a job's variables between two steps, which is read while later steps run. The
// next snapshot reuses its memory, so that taking one costs a copy, but no new pages.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/hosts/variables.h"
#include "devices/base/status.h"

namespace leat {

// Holds the last snapshot of one host. Threads: any.
class VariableSnapshot {
 public:
  // Copies the variables `names` in place of the last snapshot. The readers of that keep it
  // unchanged. failed_precondition if a name does not exist; the error of a device that failed.
  // REQUIRES: no step runs.
  Status take(const JobTables& tables, int64_t step, const std::vector<std::string>& names);
  // The same without a copy where the variables are in memory of the host: the snapshot is their
  // own memory. REQUIRES: no step runs until drop().
  Status lend(const JobTables& tables, int64_t step, const std::vector<std::string>& names);
  // Returns the snapshot of `step`; failed_precondition if there is none. No copy of its tensors
  // may outlive the returned pointer, because a later take() overwrites their bytes.
  Result<std::shared_ptr<const Variables>> read(int64_t step) const;
  // Gives the memory back, once the readers are done. There is no snapshot then.
  void drop();

 private:
  struct Copy {
    int64_t step = -1;
    Variables values;
    bool lent = false;  // some values are the memory of variables, and never written here
    std::mutex mutex;
    int readers = 0;
  };

  std::shared_ptr<Copy> writable();
  void show(std::shared_ptr<Copy> copy, int64_t step);

  std::mutex taking_;  // a thread locks it before mutex_
  mutable std::mutex mutex_;
  std::shared_ptr<Copy> copy_;  // null before the first take()
};

}  // namespace leat
