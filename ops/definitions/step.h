// The resource of leat.NextStep, for its definition and its kernel.
#pragma once

#include <mutex>
#include <optional>

#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"
#include "ops/state/resources.h"

namespace leat {

// A counter from which several runs of a job draw the numbers of their steps. The first draw sets
// it to the number of the step that draws. It restarts after the last kernel that drew is gone:
// runs that are rebuilt, from a checkpoint for example, continue at the checkpoint's step. Threads:
// any.
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
