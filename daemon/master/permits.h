// So many of a thing and no more.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace leat {

// A number of permits. Each is given back when the last copy of it goes, on whatever thread, also
// when the Permits are gone. Threads: any.
class Permits {
 public:
  // Each is one of `all`, too, if there is such: it must outlive this.
  explicit Permits(size_t limit, Permits* all = nullptr)
      : limit_(limit), all_(all), taken_(std::make_shared<Count>(0)) {}

  // `count` of them as one, or null if there are not so many left.
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
