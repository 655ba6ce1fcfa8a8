// A counter that limits how many of something exist at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace leat {

// A limited number of permits. A permit returns when its last copy is destroyed, on any thread; it
// may outlive the Permits. Threads: any.
class Permits {
 public:
  // Each permit also takes one of `all`, unless that is null. REQUIRES: `all` outlives this.
  explicit Permits(size_t limit, Permits* all = nullptr)
      : limit_(limit), all_(all), taken_(std::make_shared<Count>(0)) {}

  // Takes `count` permits as one object. Returns null if fewer are left, here or in `all`: then
  // none is taken. Never blocks. Two calls at once may both get null although one of them would
  // fit.
  std::shared_ptr<void> take(size_t count = 1) {
    std::shared_ptr<void> of_all = all_ != nullptr ? all_->take(count) : nullptr;
    if (all_ != nullptr && of_all == nullptr) return nullptr;
    if (count > limit_ || taken_->fetch_add(count) > limit_ - count) {
      if (count <= limit_) taken_->fetch_sub(count);
      return nullptr;
    }
    return {taken_.get(), [taken = taken_, count, of_all](void*) { taken->fetch_sub(count); }};
  }

 private:
  using Count = std::atomic<size_t>;
  const size_t limit_;
  Permits* const all_;
  const std::shared_ptr<Count> taken_;
};

}  // namespace leat
