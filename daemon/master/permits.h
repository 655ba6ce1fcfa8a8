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

  // Null if none is left.
  std::shared_ptr<void> take() {
    std::shared_ptr<void> of_all = all_ != nullptr ? all_->take() : nullptr;
    if (all_ != nullptr && of_all == nullptr) return nullptr;
    if (taken_->fetch_add(1) >= limit_) {
      taken_->fetch_sub(1);
      return nullptr;
    }
    return {taken_.get(), [taken = taken_, of_all](void*) { taken->fetch_sub(1); }};
  }

 private:
  using Count = std::atomic<size_t>;
  const size_t limit_;
  Permits* const all_;
  const std::shared_ptr<Count> taken_;
};

}  // namespace leat
