#include "ops/data/stores/block_cache.h"

namespace leat {

uint64_t BlockCache::new_file() {
  const std::lock_guard lock(mutex_);
  return ++files_;
}

BlockCache::Block BlockCache::find(uint64_t file, uint64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find({file, index});
  if (found == blocks_.end()) return nullptr;
  used_.splice(used_.begin(), used_, found->second.used);
  return found->second.block;
}

void BlockCache::put(uint64_t file, uint64_t index, Block block) {
  const std::lock_guard lock(mutex_);
  const Key key{file, index};
  if (block->size() > most_bytes_ || blocks_.contains(key)) return;
  bytes_ += block->size();
  used_.push_front(key);
  blocks_[key] = {std::move(block), used_.begin()};
  while (bytes_ > most_bytes_) {
    const auto oldest = blocks_.find(used_.back());
    bytes_ -= oldest->second.block->size();
    blocks_.erase(oldest);
    used_.pop_back();
  }
}

uint64_t BlockCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace leat
