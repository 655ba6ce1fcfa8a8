#include "daemon/process/lifetime_calls.h"

namespace leat {

uint64_t LifetimeCalls::add(LifetimeCall call) {
  const std::lock_guard lock(mutex_);
  calls_.emplace(++last_id_, std::move(call));
  return last_id_;
}

void LifetimeCalls::remove(uint64_t id) {
  std::unique_lock lock(mutex_);
  // The call may use its owner, which is about to be destroyed, so this waits for its end.
  changed_.wait(lock, [&] { return calling_ != id; });
  calls_.erase(id);
}

LifeSign LifetimeCalls::heart(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  return calls_.at(id).heart;
}

void LifetimeCalls::for_each(const std::function<void(LifetimeCall&)>& use) {
  std::unique_lock lock(mutex_);
  // The next one is found by its number, because other threads may change the map during a call.
  for (auto call = calls_.begin(); call != calls_.end(); call = calls_.upper_bound(calling_)) {
    calling_ = call->first;
    lock.unlock();
    use(call->second);  // remove() waits for its end, so the reference stays valid
    lock.lock();
    // A thread that waits sees the next number, because the lock is held until that is set.
    changed_.notify_all();
  }
  calling_ = 0;
}

}  // namespace leat
