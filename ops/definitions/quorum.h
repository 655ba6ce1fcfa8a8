// The resources of the quorum ops, for their definitions and their kernels.
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

// The number of the step whose results the variables of a server hold. Threads: any.
class StepClock final : public Resource {
 public:
  std::string_view kind() const override { return "step clock"; }

  // See ReplicaPool::join().
  void join(int64_t first) {
    std::lock_guard lock(mutex_);
    if (users_++ == 0) step_ = first;
  }
  void leave() {
    std::lock_guard lock(mutex_);
    --users_;
  }
  bool reached(int64_t step, uint64_t& await) {
    std::lock_guard lock(mutex_);
    await = version_ + 1;
    return step_ >= step;
  }
  void advance(int64_t step) {
    uint64_t version;
    {
      std::lock_guard lock(mutex_);
      step_ = std::max(step_, step);
      version = ++version_;
    }
    events_.signal(version);
  }
  Timeline& events() { return events_; }

 private:
  Timeline events_;
  std::mutex mutex_;
  uint64_t version_ = 0;
  int users_ = 0;
  int64_t step_ = 0;
};

// One value of each replica. Threads: the pool and the clock order the threads that write and read
// the value of a replica.
class Staging final : public Resource {
 public:
  explicit Staging(Tensor values) : values_(std::move(values)) {}
  std::string_view kind() const override { return "staging"; }
  const Tensor& values() const { return values_; }  // [replicas, ...]

 private:
  const Tensor values_;
};

}  // namespace leat
