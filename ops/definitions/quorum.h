// The resources of the quorum ops, for their definitions and their kernels. The third resource,
// ReplicaPool, is in ops/state/replica_pool.h; quorum.cc describes how the ops of a step use them.
#pragma once

#include <array>
#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/graph/kernel.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/state/replica_pool.h"
#include "ops/state/resources.h"

namespace leat {

// The number of the step whose results the variables of a server hold. leat.AwaitStep delays the
// reads of a replica with it, and leat.AdvanceStep raises it after all writes of a step.
//
// JobResources owns it, under the name of the leat.StepClock. No function blocks: a kernel whose
// step is not reached returns Progress::blocked with `await`. Threads: any.
class StepClock final : public Resource {
 public:
  std::string_view kind() const override { return "step clock"; }

  // Every kernel joins in its first step and leaves when it is destroyed. The first user sets the
  // clock to `first`, the step at which its run begins, so that a run that is rebuilt from a
  // checkpoint goes back in time. The later users find the clock as it is.
  void join(int64_t first) {
    std::lock_guard lock(mutex_);
    if (users_++ == 0) step_ = first;
  }
  void leave() {
    std::lock_guard lock(mutex_);
    --users_;
  }
  // Returns true if the variables contain all steps below `step`. If it returns false, try again
  // when events() reaches `await`; no change after this call is missed. REQUIRES: the caller has
  // joined.
  bool reached(int64_t step, uint64_t& await) {
    std::lock_guard lock(mutex_);
    await = version_ + 1;
    return step_ >= step;
  }
  // Declares that the variables contain all steps below `step`, and releases the waiting reads. A
  // lower step than the present one changes nothing.
  void advance(int64_t step) {
    uint64_t version;
    {
      std::lock_guard lock(mutex_);
      step_ = std::max(step_, step);
      version = ++version_;
    }
    events_.signal(version);
  }
  // A timeline that rises with every advance(). Its value counts the calls and is no step.
  Timeline& events() { return events_; }

 private:
  Timeline events_;
  // The mutex guards the fields below. events_ is signalled outside of it, because callbacks of the
  // timeline run on the thread that signals.
  std::mutex mutex_;
  uint64_t version_ = 0;
  int users_ = 0;
  int64_t step_ = 0;
};

// One value of each replica, for example its gradient of one variable: leat.Stage writes it, and
// leat.SumStaged adds those of the replicas that count, in the order of their chunks, so that the
// order of arrival does not change a bit of the sum.
//
// JobResources owns it, and its memory is allocated when it is made. Threads: it has no lock. The
// pool and the clock order the threads that write and read the value of a replica; replicas write
// at different places.
class Staging final : public Resource {
 public:
  // REQUIRES: `values` is [replicas, ...] of f32 or f64.
  explicit Staging(Tensor values) : values_(std::move(values)) {}
  std::string_view kind() const override { return "staging"; }
  // The values by replica, [replicas, ...]. Kernels write through the tensor's pointer, although
  // the reference is const.
  const Tensor& values() const { return values_; }

 private:
  const Tensor values_;
};

}  // namespace leat
