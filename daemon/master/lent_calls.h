// Completions that an object passes to others and can revoke before it is destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "devices/base/status.h"

namespace leat {

// An asynchronous call holds a completion, and may hold it for longer than the object lives that
// the completion uses. A lent completion does nothing once take_back() was called.
//
//   calls->lend<JobView>([this](Result<JobView> job) { use(job); })   // given to a call
//   calls->take_back();                                               // in the destructor
//
// Threads: any.
class LentCalls : public std::enable_shared_from_this<LentCalls> {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  // `done`, to be called once or dropped; it is called, or destroyed, with a lock of this object.
  template <typename T>
  Done<T> lend(Done<T> done) {
    const auto kept = std::make_shared<Done<T>>(std::move(done));
    const uint64_t id = keep(kept);
    // Gone with the last copy of what is returned.
    const std::shared_ptr<void> ticket(kept.get(), [weak = weak_from_this(), id](void*) {
      if (const auto self = weak.lock()) self->use(id, [](void*) {});
    });
    return [weak = weak_from_this(), id, ticket](Result<T> result) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->use(id, [&](void* kept) { (*static_cast<Done<T>*>(kept))(std::move(result)); });
    };
  }

  // Destroys all lent completions. When it returns, none is being called, and none will be.
  void take_back() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }

 private:
  // Keeps a completion, and returns its number, which is never used again.
  uint64_t keep(std::shared_ptr<void> done) {
    const std::lock_guard lock(mutex_);
    kept_.emplace(next_, std::move(done));
    return next_++;
  }
  // Passes a completion to `use` and forgets it; nothing if it was used or taken back. The lock is
  // held meanwhile, so that take_back() waits for it: `use` must not call this object.
  void use(uint64_t id, const std::function<void(void*)>& use) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(id);
    if (found == kept_.end()) return;
    use(found->second.get());
    kept_.erase(found);
  }

  std::mutex mutex_;
  uint64_t next_ = 0;
  std::map<uint64_t, std::shared_ptr<void>> kept_;
};

}  // namespace leat
