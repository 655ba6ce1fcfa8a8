// The resource of leat.NextStep, for its definition and its kernel.
#pragma once

#include <mutex>
#include <optional>

#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"
#include "ops/state/resources.h"

namespace leat {

// A counter from which several runs of a job draw the numbers of their steps. It restarts after the
// last kernel that drew is gone: runs that are rebuilt, from a checkpoint for example, continue at
// the checkpoint's step.
//
// Each number is drawn once. The order in which concurrent runs draw depends on their speed, so a
// job with several runs on one counter is not reproducible bit by bit.
//
// JobResources owns it, under the name of the leat.StepCounter. No function blocks or allocates.
// Threads: any.
class StepCounter final : public Resource {
 public:
  std::string_view kind() const override { return "step counter"; }

  // Counts the caller as a user. The first user sets the next number to `first`, the number of the
  // step in which its run begins; for later users `first` has no effect. A kernel joins in its
  // first step, because the step is not known before.
  void join(int64_t first) {
    std::lock_guard lock(mutex_);
    if (users_++ == 0) next_ = first;
  }
  // Ends the use. Every caller of join() calls it once; the kernel does so in its destructor.
  void leave() {
    std::lock_guard lock(mutex_);
    --users_;
  }
  // Returns the next number. REQUIRES: the caller has joined.
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
