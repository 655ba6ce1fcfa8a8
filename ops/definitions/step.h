// What the definition of these ops and their kernels share.
#pragma once

#include <mutex>
#include <optional>

#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"
#include "ops/state/resources.h"

namespace leat {

// Numbers that several runs of a job draw their steps from. It begins with the number of the step
// that draws first, and anew when no kernel that drew is left: runs that are made again, from a
// checkpoint, say, go on from there. Threads: any.
class StepCounter final : public Resource {
 public:
  std::string_view kind() const override { return "step counter"; }

  void join(int64_t first) {
    std::lock_guard lock(mutex_);
    if (users_++ == 0) next_ = first;
  }
  void leave() {
    std::lock_guard lock(mutex_);
    --users_;
  }
  int64_t draw() {
    std::lock_guard lock(mutex_);
    return next_++;
  }

 private:
  std::mutex mutex_;
  int users_ = 0;
  int64_t next_ = 0;
};

}  // namespace leat
