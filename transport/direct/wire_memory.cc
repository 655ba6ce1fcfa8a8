#include "transport/direct/wire_memory.h"

namespace leat::direct {

uint64_t WireMemory::number() {
  const std::lock_guard lock(mutex_);
  return ++numbers_;
}

void WireMemory::keep(uint64_t peer, uint64_t number, std::unique_ptr<Buffer> memory) {
  const std::lock_guard lock(mutex_);
  kept_[{peer, number}] = std::move(memory);
}

void WireMemory::closed_by(uint64_t peer, std::span<const uint64_t> numbers) {
  std::vector<std::unique_ptr<Buffer>> freed;  // without the lock
  const std::lock_guard lock(mutex_);
  for (const uint64_t number : numbers) {
    const auto found = kept_.find({peer, number});
    if (found == kept_.end()) continue;
    freed.push_back(std::move(found->second));
    kept_.erase(found);
  }
}

void WireMemory::closed_here(uint64_t peer, uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::deque<uint64_t>& closed = closed_[peer];
  closed.push_back(number);
  if (closed.size() > kMostTold) closed.pop_front();
}

std::vector<uint64_t> WireMemory::closed_here(uint64_t peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = closed_.find(peer);
  if (found == closed_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

size_t WireMemory::kept() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

}  // namespace leat::direct
